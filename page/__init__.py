"""What people see of jobs in a browser or a picture, made of the API's answers. Pure."""
