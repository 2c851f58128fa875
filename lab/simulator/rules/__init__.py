"""What must hold after every decision, each rule a function with the name of what it forbids.

`check` asks all of them about one decision, `ends` about the whole, once all has converged.
"""
