"""REST for people: routers by topic over `driver.people.control.Control`, and nothing that decides.

Made by `driver.main` with `app.make_app(control)`. Must not import the loop or the journal's
adapter, and must not change anything but by `control.request`.
"""
