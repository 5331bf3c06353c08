"""A mail program in place of MailProg: hands one mail to an SMTP server. A process of its own, which the controller may end.

The connection is encrypted where the server offers STARTTLS; its certificate is not checked then, as between mail servers: the
alternative would be plain text. There is no login: the server is one that takes mails from this machine.
"""

from __future__ import annotations

import os
import sys

from shim.core import mail

_CODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from shim.control.controller.smtp import main; sys.exit(main(sys.argv[1:]))"
_PATIENCE = 20  # seconds for each answer of the server


def argv(server: str, domain: str) -> list[str]:
    """The program, to be called with ``-s SUBJECT USER``, and ``server`` (HOST[:PORT]) at its end for the log."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return [sys.executable or "/usr/bin/python3", "-I", "-S", "-X", "utf8", "-c", _CODE, here, domain, server]


def main(args: list[str]) -> int:
    """DOMAIN SERVER -s SUBJECT USER[,USER]: 0 when the server has taken the mail for all of them."""
    import email.message
    import smtplib
    import socket
    import ssl

    domain, server, _, subject, users = args
    host, port = mail.server(server)
    message = email.message.EmailMessage()
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    try:
        message["From"] = f"slurm@{domain or socket.getfqdn()}"
        message["To"] = users
        message["Subject"] = "".join(one if one.isprintable() else "?" for one in subject)
        with smtplib.SMTP(host, port, timeout=_PATIENCE) as connection:
            connection.ehlo()
            if connection.has_extn("starttls"):
                connection.starttls(context=unchecked)
            refused = connection.send_message(message)
    except (OSError, ValueError) as error:  # SMTPException is an OSError
        print(error, file=sys.stderr)
        return 1
    for user, reason in refused.items():
        print(user, reason, file=sys.stderr)
    return 1 if refused else 0
