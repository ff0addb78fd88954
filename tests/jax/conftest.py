"""What runs in processes of its own is nothing to collect."""

collect_ignore = ["devices.py"]
