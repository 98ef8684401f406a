"""Notifications: files are found by the messages of queues, and by a listing from time to time.

Open `rounds` first. `inbox` receives and keeps messages, `acknowledgements` decides when they may be deleted,
`events` understands them, and `sqs` is the queue of AWS. What must not live here: which files are known,
which belongs to `seen_files`.
"""
