"""What an attacker might write where a configuration expects something else."""

HOSTILE_VALUES = (
    "/etc/passwd", "../../../etc/cron.d/x", "$(touch /tmp/owned)", "`id`", "a;rm -rf /", "x\ny=z",
    "http://evil.example/x", "jndi:ldap://evil.example/a", "", " ", "%s%n", "{0.__class__}", "\0",
    "9" * 5_000, "-1", "-99999999999999999999", "99999999999999999999", "1e3", "0x10", "١٢", "NaN",
    "null",
)  # fmt: skip
