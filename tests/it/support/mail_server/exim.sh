# Runs Exim.
add_user Debian-exim 64903
use_users
mkdir /var/spool/exim4
chown Debian-exim:Debian-exim /var/spool/exim4
cat >"$1/exim.conf" <<END
primary_hostname = desk.example
spool_directory = /var/spool/exim4
log_file_path = /var/spool/exim4/%slog
local_interfaces = 127.0.0.1
daemon_smtp_ports = $2
tls_advertise_hosts =
acl_smtp_rcpt = accept
smtp_accept_queue_per_connection = 0
never_users =
keep_environment =
begin acl
accept:
  accept
begin routers
all:
  driver = accept
  transport = box
begin transports
box:
  driver = appendfile
  maildir_format
  directory = $1/box/maildir
  user = Debian-exim
  group = Debian-exim
  mode = 0644
  directory_mode = 0755
  return_path_add
END
exim4 -C "$1/exim.conf" -bdf -q1m &
read _ || true
kill $!
wait
