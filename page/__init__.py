"""What people are shown: the words that pages and commands share, and the pages themselves.

Pure: dicts of the API in, words or HTML out. Used by `driver.adapters.page`, which serves pages,
and by `cli`. Must not ask anybody anything, nor know how a page is served.
"""
