# Begins the script of each mail server: the unpacked packages in $3 and empty folders replace those of this
# machine, in the mount namespace of the server only.
set -e
mount -t overlay overlay -o "lowerdir=$3/usr:/usr" /usr
mount -t tmpfs tmpfs /var/spool
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /run
touch /run/passwd /run/group

# add_user NAME NUMBER: adds a user and its group, which the package would create.
add_user() {
    echo "$1:x:$2:$2::/:/bin/false" >>/run/passwd
    add_group "$1" "$2"
}

add_group() { echo "$1:x:$2:" >>/run/group; }

use_users() {
    cat /etc/passwd >>/run/passwd
    cat /etc/group >>/run/group
    mount --bind /run/passwd /etc/passwd
    mount --bind /run/group /etc/group
}
