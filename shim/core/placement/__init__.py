"""What a request needs, which nodes it gets, which task runs where. Pure: no clock, no machine."""
