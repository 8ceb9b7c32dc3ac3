import type { Action } from "../action.js";
import { hostAction } from "../host-action.js";

const WAIT = ["--wait", "wait until it is done"] as const;
const DRY_RUN = ["--dry-run", "only show the effect"] as const;
const SLICE_SIZE = [
  "--slice-size <size>",
  "size of the slices that disks take, a power of two such as 64MiB (that of the device, or of its pool)",
] as const;
const ERASE_FOREIGN = [
  "--erase-foreign",
  "also accept drives with a label of another fleet or device, and erase them",
] as const;

export const addHost: Action = hostAction(
  {
    usage: "add-host <host-id>",
    summary: "add a host, whose agent has registered, and its devices",
    options: [WAIT, DRY_RUN, SLICE_SIZE, ERASE_FOREIGN],
    example: "diskmesh add-host host-4 --wait",
  },
  (registry, wanted) => registry.addHost(wanted),
);

export const removeHost: Action = hostAction(
  {
    usage: "remove-host <host-id>",
    summary: "remove a host: its disks move to other hosts, and its devices are erased and closed",
    options: [WAIT, DRY_RUN, ["--keep-data", "do not erase its devices"]],
    example: "diskmesh remove-host host-3 --wait",
  },
  (registry, wanted) => registry.removeHost(wanted),
);

export const purgeHost: Action = hostAction(
  {
    usage: "purge-host <host-id>",
    summary:
      "delete the registry's record of a host without disks or VM, and of its devices; while its agent runs, it registers the host again",
    options: [["--force", "even if the host is a VM, or has disks on its devices, which are lost"], DRY_RUN],
    example: "diskmesh purge-host host-4 --dry-run",
  },
  (registry, wanted) => registry.purgeHost(wanted),
);

export const addDevice: Action = hostAction(
  {
    usage: "add-device <host-id> <device-id>",
    summary: "add a device, or accept other hardware in its place",
    options: [
      WAIT,
      DRY_RUN,
      [
        "--accept-unidentified",
        "accept a device without a serial number and label, which waits for confirm-device after each boot",
      ],
      SLICE_SIZE,
      ERASE_FOREIGN,
    ],
    example: "diskmesh add-device host-4 host-4-nvme-1 --wait",
  },
  (registry, wanted) => registry.addDevice(wanted),
);

export const confirmDevice: Action = hostAction(
  {
    usage: "confirm-device <host-id> <device-id>",
    summary: "confirm that an unidentified or overwritten drive is the device, with its data",
    options: [DRY_RUN],
    example: "diskmesh confirm-device host-4 host-4-sdb --dry-run",
  },
  (registry, wanted) => registry.confirmDevice(wanted),
);

export const adoptDevice: Action = hostAction(
  {
    usage: "adopt-device <host-id> <device-id>",
    summary: "adopt a moved drive as the device of its label, with all its disks",
    options: [DRY_RUN],
    example: "diskmesh adopt-device host-7 host-7-sdc --dry-run",
  },
  (registry, wanted) => registry.adoptDevice(wanted),
);

export const removeDevice: Action = hostAction(
  {
    usage: "remove-device <host-id> <device-id>",
    summary: "remove a device: its disk moves to another device, and the device is erased and closed",
    options: [WAIT, DRY_RUN, ["--keep-data", "do not erase the device"]],
    example: "diskmesh remove-device host-4 host-4-nvme-1 --wait",
  },
  (registry, wanted) => registry.removeDevice(wanted),
);
