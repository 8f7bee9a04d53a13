# Runs Postfix.
add_user postfix 64901
add_group postdrop 64902
use_users
mkdir "$1/conf" "$1/data" /var/spool/postfix
chown postfix "$1/data"
cat >"$1/conf/main.cf" <<END
compatibility_level = 3.6
queue_directory = /var/spool/postfix
data_directory = $1/data
meta_directory = $1/conf
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
shlib_directory = /usr/lib/postfix
mail_owner = postfix
setgid_group = postdrop
myhostname = desk.example
mydestination =
alias_maps =
inet_interfaces = 127.0.0.1
mynetworks = 127.0.0.0/8
maillog_file = $1/maillog
maillog_file_prefixes = /
virtual_mailbox_domains = static:all
virtual_mailbox_base = $1/box
virtual_mailbox_maps = static:maildir/
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
smtpd_relay_restrictions = permit_mynetworks, reject
END
cat >"$1/conf/master.cf" <<END
127.0.0.1:$2 inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
anvil unix - - n - 1 anvil
error unix - - n - - error
virtual unix - n n - - virtual
smtp unix - - n - - smtp
postlog unix-dgram n - n - 1 postlogd
END
cd /var/spool/postfix
mkdir active bounce corrupt defer deferred flush hold incoming maildrop pid private public saved trace
chown postfix active bounce corrupt defer deferred flush hold incoming maildrop private public saved trace
chgrp postdrop public maildrop
chmod 700 private
/usr/lib/postfix/sbin/master -c "$1/conf" -d &
read _ || true
kill $!
wait
