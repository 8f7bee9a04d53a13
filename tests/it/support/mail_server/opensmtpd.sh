# Runs OpenSMTPD.
mount -t tmpfs tmpfs /var/spool && mount -t tmpfs tmpfs /run || exit
cat >"$1/smtpd.conf" <<END
listen on 127.0.0.1 port $2 hostname desk.example
table users { "@" = "$4" }
action "local" maildir "$1/box/maildir" virtual <users>
match from any for any action "local"
END
/usr/sbin/smtpd -d -f "$1/smtpd.conf" &
read _
kill $!
wait
