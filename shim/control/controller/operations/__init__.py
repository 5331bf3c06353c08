"""What clients can ask for, one module per group: each takes the request's fields and answers with the reply's."""
