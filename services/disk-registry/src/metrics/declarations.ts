import { DURATION_BUCKETS_SECONDS, metric } from "@diskmesh/metrics";
import { REASONS } from "../model/explain/cause.js";

export const ATTACH_STATES = ["UNKNOWN", "ATTACHING", "ATTACHED", "CLOSING", "DETACHED"] as const;
export const HEALTHS = ["ONLINE", "WARNING", "ERROR"] as const;
export const HOST_STATES = ["ONLINE", "WARNING", "UNAVAILABLE", "DEAD"] as const;
export const PUBLICATION_STATES = ["UNPUBLISHED", "PUBLISHING", "PUBLISHED", "UNPUBLISHING", "DELETED"] as const;
export const DEVICE_USES = ["free", "disk", "dirty", "unusable"] as const;
export const QUEUES = ["orders", "publications", "erases", "unexports", "moves", "removals", "graces"] as const;
export const MOVE_STATES = ["waiting", "copying"] as const;
export const QUEUE_STATES = ["ready", "running", "waiting"] as const;

/** Metrics of the fleet. Only a leading registry reports them; a standby reports none. */
export const registryMetrics = {
  hosts: metric({
    kind: "gauge",
    name: "diskmesh.hosts",
    unit: "{host}",
    description: "Number of hosts, by state.",
    labels: { state: HOST_STATES },
  }),
  devices: metric({
    kind: "gauge",
    name: "diskmesh.devices",
    unit: "{device}",
    description: "Number of devices, by attach state and health.",
    labels: { state: ATTACH_STATES, health: HEALTHS },
  }),
  capacity: metric({
    kind: "gauge",
    name: "diskmesh.devices.size",
    unit: "By",
    description:
      "Capacity of the devices in operation, by use: free for new disks, part of a disk, of a deleted disk that is " +
      "kept, dirty (erased before reuse), or unusable for another reason.",
    labels: { use: [...DEVICE_USES, "deleted"] },
  }),
  repairRoom: metric({
    kind: "gauge",
    name: "diskmesh.repair_room.missing",
    unit: "By",
    description:
      "Bytes that lack so that the largest host of a pool can be emptied: the most of any pool of any az; 0 when every host " +
      "can be.",
  }),
  disks: metric({
    kind: "gauge",
    name: "diskmesh.disks",
    unit: "{disk}",
    description: "Number of disks, by publication state; DELETED for deleted ones that are kept.",
    labels: { state: PUBLICATION_STATES },
  }),
  moves: metric({
    kind: "gauge",
    name: "diskmesh.moves",
    unit: "{disk}",
    description: "Number of disks that move, by state: waiting for a target, or with one that is being filled.",
    labels: { state: MOVE_STATES },
  }),
  moveTries: metric({
    kind: "counter",
    name: "diskmesh.moves.tries",
    unit: "{try}",
    description: "Ended tries to move a part of a disk to another device, by outcome.",
    labels: { outcome: ["done", "failed"] },
  }),
  movedBytes: metric({
    kind: "counter",
    name: "diskmesh.moves.moved",
    unit: "By",
    description: "Bytes of the parts of disks that were moved to another device.",
  }),
  troubles: metric({
    kind: "gauge",
    name: "diskmesh.troubles",
    unit: "{thing}",
    description:
      "Number of hosts, devices and disks in trouble, by code of the trouble (field `trouble` of Host, Device and " +
      "Disk).",
    labels: { kind: ["HOST", "DEVICE", "DISK"], code: [...new Set(Object.values(REASONS).flat())] },
  }),
  pendingOrders: metric({
    kind: "gauge",
    name: "diskmesh.orders.pending",
    unit: "{device}",
    description: "Number of devices whose agent has not yet confirmed the last attach or detach order.",
  }),
  oldestOrder: metric({
    kind: "gauge",
    name: "diskmesh.orders.oldest",
    unit: "s",
    description: "Age of the oldest order that an agent has not yet confirmed; 0 if there is none.",
  }),
  massSilence: metric({
    kind: "gauge",
    name: "diskmesh.mass_silence",
    unit: "1",
    description: "1 while more than half of the hosts are silent, so that no host is marked UNAVAILABLE; else 0.",
  }),
  work: metric({
    kind: "gauge",
    name: "diskmesh.work",
    unit: "{item}",
    description: "Items in the background queues, by queue and state: ready to start, running, or waiting for a retry.",
    labels: { queue: QUEUES, state: QUEUE_STATES },
  }),
  phase: metric({
    kind: "histogram",
    name: "diskmesh.attach.phase.duration",
    unit: "s",
    description:
      "Duration of each phase of an operation. Attach and detach of a device: `queue` until the first order is " +
      "sent, `order` until the agent answers. Publish, change of a published disk, and unpublish: `session` until every " +
      "device has granted the session, `export` until the host has started, changed or ended the export, `total` for " +
      "the whole operation.",
    labels: {
      operation: ["attach", "detach", "publish", "change", "unpublish"],
      phase: ["queue", "order", "session", "export", "total"],
    },
    buckets: DURATION_BUCKETS_SECONDS,
  }),
};
