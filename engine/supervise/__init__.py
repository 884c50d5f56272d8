"""What keeps a run going and ends it: supervisor, queue, Ray, housekeeping."""
