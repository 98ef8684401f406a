"""``flip27 notifications``: sets up the queue of ``discovery=notifications``. Open :mod:`.commands`."""
