"""The http reader: pages of a JSON API, each record in exactly one batch. Open `reader` first."""
