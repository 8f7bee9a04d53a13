# Runs OpenSMTPD.
add_user opensmtpd 64904
add_user opensmtpq 64905
use_users
mkdir -p /var/lib/opensmtpd/empty
cat >"$1/smtpd.conf" <<END
listen on 127.0.0.1 port $2 hostname desk.example
table users { "@" = "$4" }
action "local" maildir "$1/box/maildir" virtual <users>
match from any for any action "local"
END
/usr/sbin/smtpd -d -f "$1/smtpd.conf" &
read _ || true
kill $!
wait
