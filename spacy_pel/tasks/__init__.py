"""What the commands do, as plain functions for the command line, the server and Python users."""
