"""The oracle: plays the same cases with the same observations and actions, and no part of the core.

It knows which cases there are, how often each comes and what each looks like, but not which one it
is in, nor how soon each strikes: a lemon that strikes each 6 s is known at once only to who has
been told so (`play_clocked`, for comparison). By Bayes from all that was observed, then the action
of least expected loss; the cause that it names is the likeliest one at the end. It plays the
causes themselves, in a loop of its own (`play`), not through the simulated cluster: what an action
takes there is stated in `costs`, of the same size as it takes there. Nobody decides by it: it says
how well one could.
"""
