"""Pictures of a job: from the API's answers (dicts) a layout (numbers), and of that SVG. Pure.

Called by `cli`, for files and for the terminal. `page/static/views` draws the same layouts in a
browser; tests/page holds both to the same numbers. Must not read, ask or know what time it is.
"""
