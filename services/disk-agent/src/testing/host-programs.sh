# Shows what udev, LVM and mdadm do with a block device, in a mount namespace of its own: NAME RULES LVM MDADM.
#   NAME   the kernel's name of the block device
#   RULES  folder with the host's own udev rules
#   LVM    folder with LVM's configuration
#   MDADM  file with mdadm's configuration
set -eu
name=$1 rules=$2 lvm=$3 mdadm=$4
mkdir -p /etc/udev/rules.d
mount --bind "$rules" /etc/udev/rules.d
mount -t tmpfs tmpfs /run
mkdir /run/udev /run/dev
cp -a "/dev/$name" /dev/null /dev/zero /dev/full /dev/random /dev/urandom /run/dev
mount --rbind /run/dev /dev
export LVM_SYSTEM_DIR=$lvm LVM_SUPPRESS_FD_WARNINGS=1 SYSTEMD_LOG_LEVEL=debug
echo "== udev"
udevadm test --action=change "/sys/block/$name" 2>&1
echo "== lvm"
lvm vgs --noheadings --options vg_name 2>&1 || true
lvm vgchange --activate ay --autoactivation event 2>&1 || true
echo "== mdadm"
mdadm --assemble --scan --verbose --config="$mdadm" 2>&1 || true
echo "== holders"
for holder in "/sys/block/$name/holders/"*; do
  [ -e "$holder" ] || continue
  array=$(basename "$holder")
  echo "$array"
  [ -e "/dev/$array" ] || mknod "/dev/$array" b "$(cut -d: -f1 "$holder/dev")" "$(cut -d: -f2 "$holder/dev")"
  case $array in
    md*) mdadm --stop "/dev/$array" ;;
    dm-*) dmsetup remove "/dev/$array" ;;
  esac
done
