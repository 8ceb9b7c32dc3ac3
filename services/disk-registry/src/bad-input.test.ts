import {
  CreateDiskRequest,
  DiskRegistryServiceDefinition,
  HostState,
  SetHostStateRequest,
} from "@diskmesh/api/registry";
import { expect } from "chai";
import { type Call, firstOf, refused, WATCH } from "./testing/calls.js";
import type { TestAgent } from "./testing/test-agent.js";
import { type RegistryClient, TestRegistry } from "./testing/test-registry.js";

const MALFORMED_IDS: readonly [string, string][] = [
  ["../", "../etc/passwd"],
  ["10 KiB", "x".repeat(10 * 1024)],
  ["NUL", "a\0b"],
  ["a space", "a b"],
  ["a newline", "a\nb"],
  ["a wildcard", "host.*"],
  ["not ASCII", "hôst"],
];

const dead = (change: object) =>
  SetHostStateRequest.fromPartial({ hostIds: ["h1"], state: HostState.DEAD, reason: "burnt", ...change });
const disk = (change: object) => CreateDiskRequest.fromPartial({ diskId: "x", sizeBytes: 1, az: "z1", ...change });

/** Every method that takes an id, called with the given id. */
const BY_ID: Readonly<Record<string, (operator: RegistryClient, id: string) => Promise<unknown>>> = {
  "AddHost host_id": (operator, hostId) => operator.addHost({ hostId }),
  "RemoveHost host_id": (operator, hostId) => operator.removeHost({ hostId }),
  "PurgeHost host_id": (operator, hostId) => operator.purgeHost({ hostId, force: true }),
  "AddDevice host_id": (operator, hostId) => operator.addDevice({ hostId, path: "/dev/d1" }),
  "RemoveDevice host_id": (operator, hostId) => operator.removeDevice({ hostId, path: "/dev/d1" }),
  "PurgeDevice host_id": (operator, hostId) => operator.purgeDevice({ hostId, path: "/dev/d1", force: true }),
  "GetHost host_id": (operator, hostId) => operator.getHost({ hostId }),
  "GetDevice device_id": (operator, deviceId) => operator.getDevice({ deviceId }),
  "ResizeDisk disk_id": (operator, diskId) => operator.resizeDisk({ diskId, sizeBytes: 1 }),
  "CreateDisk disk_id": (operator, diskId) => operator.createDisk(disk({ diskId })),
  "DeleteDisk disk_id": (operator, diskId) => operator.deleteDisk({ diskId }),
  "UndeleteDisk disk_id": (operator, diskId) => operator.undeleteDisk({ diskId }),
  "GetDisk disk_id": (operator, diskId) => operator.getDisk({ diskId }),
  "SetDiskLabels disk_id": (operator, diskId) => operator.setDiskLabels({ diskId }),
  "PublishDisk disk_id": (operator, diskId) => operator.publishDisk({ diskId, hostId: "h1" }),
  "PublishDisk host_id": (operator, hostId) => operator.publishDisk({ diskId: "x", hostId }),
  "UnpublishDisk disk_id": (operator, diskId) => operator.unpublishDisk({ diskId }),
  "AssignHost vm_cid": (operator, vmCid) => operator.assignHost({ vmCid }),
  "UnassignHost vm_cid": (operator, vmCid) => operator.unassignHost({ vmCid }),
};

/** Methods in which an empty id means "not given". */
const BY_OPTIONAL_ID: Readonly<Record<string, (operator: RegistryClient, id: string) => Promise<unknown>>> = {
  "AddDevice device_id": (operator, deviceId) => operator.addDevice({ hostId: "h1", deviceId }),
  "RemoveDevice device_id": (operator, deviceId) => operator.removeDevice({ hostId: "h1", deviceId }),
  "PurgeDevice device_id": (operator, deviceId) => operator.purgeDevice({ hostId: "h1", deviceId, force: true }),
  "CreateDisk host_id": (operator, hostId) => operator.createDisk(disk({ hostId })),
  "WatchDevices host_id": (operator, hostId) => firstOf(operator.watchDevices({ ...WATCH, hostId })),
  "ListDevices host_id": (operator, hostId) => operator.listDevices({ hostId }),
  "ListDisks host_id": (operator, hostId) => operator.listDisks({ hostId }),
  "ListDisks device_host_id": (operator, deviceHostId) => operator.listDisks({ deviceHostId }),
  "ListDisks device_id": (operator, deviceId) => operator.listDisks({ deviceId }),
  "UnpublishDisk host_id": (operator, hostId) => operator.unpublishDisk({ diskId: "x", hostId }),
  "AssignHost disk_ids": (operator, diskId) => operator.assignHost({ vmCid: "vm", diskIds: [diskId] }),
};

const REFUSED: readonly [string, Call, string, string][] = [
  ["ResizeDisk, size 0", (o) => o.resizeDisk({ diskId: "d", sizeBytes: 0 }), "InvalidArgumentError", "size_bytes is 0"],
  ["ResizeDisk, no such disk", (o) => o.resizeDisk({ diskId: "d", sizeBytes: 1 }), "NotFoundError", "d"],
  ["CreateDisk, size 0", (o) => o.createDisk(disk({ sizeBytes: 0 })), "InvalidArgumentError", "size_bytes is 0"],
  [
    "CreateDisk, negative size",
    (o) => o.createDisk(disk({ sizeBytes: -1 })),
    "InvalidArgumentError",
    "size_bytes is -1",
  ],
  ["CreateDisk, nowhere", (o) => o.createDisk(disk({ az: "" })), "InvalidArgumentError", "az and host_id"],
  ...[2, -1].map((copies): [string, Call, string, string] => [
    `CreateDisk, ${copies} copies`,
    (o) => o.createDisk(disk({ copies })),
    "InvalidArgumentError",
    "not yet available",
  ]),
  ["CreateDisk, malformed az", (o) => o.createDisk(disk({ az: "../z" })), "InvalidArgumentError", "az"],
  ["CreateDisk, malformed pool", (o) => o.createDisk(disk({ pool: "\0" })), "InvalidArgumentError", "pool"],
  ["CreateDisk, unknown host", (o) => o.createDisk(disk({ hostId: "h9" })), "NotFoundError", "h9"],
  [
    "CreateDisk, larger than everything",
    (o) => o.createDisk(disk({ sizeBytes: Number.MAX_SAFE_INTEGER })),
    "ResourceExhaustedError",
    "does not fit",
  ],
  [
    "CreateDisk, 65 labels",
    (o) => o.createDisk(disk({ labels: Array.from({ length: 65 }, (_, i) => ({ name: `n${i}`, value: "" })) })),
    "InvalidArgumentError",
    "at most 64",
  ],
  [
    "CreateDisk, a label twice",
    (o) =>
      o.createDisk(
        disk({
          labels: [
            { name: "a", value: "" },
            { name: "a", value: "" },
          ],
        }),
      ),
    "InvalidArgumentError",
    "twice",
  ],
  [
    "CreateDisk, a label too long",
    (o) => o.createDisk(disk({ labels: [{ name: "a", value: "x".repeat(1_025) }] })),
    "InvalidArgumentError",
    "1024",
  ],
  [
    "CreateDisk, a label without a name",
    (o) => o.createDisk(disk({ labels: [{ name: "", value: "x" }] })),
    "InvalidArgumentError",
    "label name",
  ],
  ["GetHost, unknown", (o) => o.getHost({ hostId: "h9" }), "NotFoundError", "h9"],
  ["GetDevice, unknown", (o) => o.getDevice({ deviceId: "d9" }), "NotFoundError", "d9"],
  ["GetDisk, unknown", (o) => o.getDisk({ diskId: "x9" }), "NotFoundError", "x9"],
  ["SetDiskLabels, unknown", (o) => o.setDiskLabels({ diskId: "x9" }), "NotFoundError", "x9"],
  ["PublishDisk, unknown disk", (o) => o.publishDisk({ diskId: "x9", hostId: "h1" }), "NotFoundError", "x9"],
  ["UnpublishDisk, unknown disk", (o) => o.unpublishDisk({ diskId: "x9" }), "NotFoundError", "x9"],
  [
    "AddDevice, id and path",
    (o) => o.addDevice({ hostId: "h1", deviceId: "d1", path: "/dev/d1" }),
    "InvalidArgumentError",
    "both given",
  ],
  ["AddDevice, neither id nor path", (o) => o.addDevice({ hostId: "h1" }), "InvalidArgumentError", "both empty"],
  ["AddDevice, path without host", (o) => o.addDevice({ path: "/dev/d1" }), "InvalidArgumentError", "host_id is empty"],
  [
    "AddDevice, path with NUL",
    (o) => o.addDevice({ hostId: "h1", path: "/dev/\0" }),
    "InvalidArgumentError",
    "control character",
  ],
  [
    "AddDevice, path of 10 KiB",
    (o) => o.addDevice({ hostId: "h1", path: "/".repeat(10_240) }),
    "InvalidArgumentError",
    "longer than 4096",
  ],
  ["ListHosts, negative page size", (o) => o.listHosts({ pageSize: -1 }), "InvalidArgumentError", "page_size is -1"],
  [
    "ListDevices, negative page size",
    (o) => o.listDevices({ pageSize: -5 }),
    "InvalidArgumentError",
    "page_size is -5",
  ],
  [
    "ListDisks, malformed page token",
    (o) => o.listDisks({ pageToken: "!!" }),
    "InvalidArgumentError",
    "page_token is malformed",
  ],
  [
    "ListDisks, page token of no id",
    (o) => o.listDisks({ pageToken: Buffer.from("../").toString("base64url") }),
    "InvalidArgumentError",
    "page_token is malformed",
  ],
  [
    "ListHosts, page token of 10 KiB",
    (o) => o.listHosts({ pageToken: "A".repeat(10_240) }),
    "InvalidArgumentError",
    "page_token is malformed",
  ],
  ["AddHost, unknown", (o) => o.addHost({ hostId: "h9" }), "NotFoundError", "h9"],
  ["SetHostState, no reason", (o) => o.setHostState(dead({ reason: "" })), "InvalidArgumentError", "reason"],
  [
    "SetHostState, a reason of two lines",
    (o) => o.setHostState(dead({ reason: "a\nb" })),
    "InvalidArgumentError",
    "reason",
  ],
  [
    "SetHostState, a reason too long",
    (o) => o.setHostState(dead({ reason: "x".repeat(5_000) })),
    "InvalidArgumentError",
    "reason",
  ],
  ...[undefined, { seconds: 0, nanos: 0 }, { seconds: -5, nanos: 0 }, { seconds: 8 * 86_400, nanos: 0 }].map(
    (duration): [string, Call, string, string] => [
      `SetHostState, maintenance for ${duration?.seconds} s`,
      (o) => o.setHostState(dead({ state: HostState.MAINTENANCE, duration })),
      "InvalidArgumentError",
      "duration is",
    ],
  ),
  [
    "SetHostState, a time of being dead",
    (o) => o.setHostState(dead({ duration: { seconds: 60, nanos: 0 } })),
    "InvalidArgumentError",
    "only HOST_STATE_MAINTENANCE",
  ],
  ["SetHostState, no host", (o) => o.setHostState(dead({ hostIds: [] })), "InvalidArgumentError", "host_ids"],
  ["SetHostState, a host twice", (o) => o.setHostState(dead({ hostIds: ["h1", "h1"] })), "InvalidArgumentError", "h1"],
  [
    "SetHostState, malformed host",
    (o) => o.setHostState(dead({ hostIds: ["h 1"] })),
    "InvalidArgumentError",
    "host_id",
  ],
  [
    "SetHostState, a state that nobody may set",
    (o) => o.setHostState(dead({ state: HostState.UNAVAILABLE })),
    "InvalidArgumentError",
    "state",
  ],
  [
    "SetHostState, no state",
    (o) => o.setHostState(dead({ state: HostState.UNSPECIFIED })),
    "InvalidArgumentError",
    "state",
  ],
  ["SetHostState, unknown host", (o) => o.setHostState(dead({ hostIds: ["h1", "h9"] })), "NotFoundError", "h9"],
  ["RemoveHost, unknown", (o) => o.removeHost({ hostId: "h9" }), "NotFoundError", "h9"],
  ["PurgeHost, unknown", (o) => o.purgeHost({ hostId: "h9", force: true }), "NotFoundError", "h9"],
  ["PurgeHost, unknown, dry run", (o) => o.purgeHost({ hostId: "h9", dryRun: true }), "NotFoundError", "h9"],
  ["AddDevice, unknown device", (o) => o.addDevice({ hostId: "h1", deviceId: "d9" }), "NotFoundError", "d9"],
  ["AddDevice, unknown host", (o) => o.addDevice({ hostId: "h9", deviceId: "d1" }), "NotFoundError", "h9"],
  ["AddDevice, unknown path", (o) => o.addDevice({ hostId: "h1", path: "/dev/../d1" }), "NotFoundError", "on path"],
  ["ConfirmDevice, unknown", (o) => o.confirmDevice({ hostId: "h1", deviceId: "d9" }), "NotFoundError", "d9"],
  [
    "AddDevice, another host's device",
    (o) => o.addDevice({ hostId: "h2", deviceId: "d1" }),
    "InvalidArgumentError",
    "belongs to host h1",
  ],
  [
    "RemoveDevice, another host's device",
    (o) => o.removeDevice({ hostId: "h2", deviceId: "d1" }),
    "InvalidArgumentError",
    "belongs to host h1",
  ],
  [
    "PurgeDevice, another host's device",
    (o) => o.purgeDevice({ hostId: "h2", deviceId: "d1", force: true }),
    "InvalidArgumentError",
    "belongs to host h1",
  ],
];

describe("bad input, through a real server", () => {
  let registry: TestRegistry;
  let agent: TestAgent;

  before(async () => {
    registry = await TestRegistry.start();
    agent = await registry.agent("h1", ["d1"]);
    await agent.register();
    const second = await registry.agent("h2", []);
    await second.register();
  });
  after(async () => registry?.stop());
  for (const [method, call] of Object.entries(BY_ID)) {
    it(`${method}: malformed or empty -> INVALID_ARGUMENT`, async () => {
      const field = method.split(" ")[1] ?? "";
      for (const [, id] of [["empty", ""], ...MALFORMED_IDS] as const) {
        await refused(call(registry.operator, id), "InvalidArgumentError", field, field);
      }
    });
  }

  for (const [method, call] of Object.entries(BY_OPTIONAL_ID)) {
    it(`${method}: malformed -> INVALID_ARGUMENT`, async () => {
      const field = method.split(" ")[1] ?? "";
      for (const [, id] of MALFORMED_IDS)
        await refused(call(registry.operator, id), "InvalidArgumentError", field, field);
    });
  }

  for (const [cause, call, name, says] of REFUSED) {
    it(`${cause} -> ${name}`, () => refused(call(registry.operator), name, says));
  }

  it("sizes of 2^53, 2^63 and bytes that are no message -> INVALID_ARGUMENT, never rounded", async () => {
    const sizeField = 0x10;
    const raw: readonly (readonly [string, readonly number[]])[] = [
      ["size_bytes is 9007199254740992:", [sizeField, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]],
      ["size_bytes is -9223372036854775808:", [sizeField, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]],
      ["cannot be decoded", [0x0a, 0x7f, 0x01]],
    ];
    const { fullName, methods } = DiskRegistryServiceDefinition;
    for (const [says, bytes] of raw) {
      const requestType = { ...CreateDiskRequest, encode: () => ({ finish: () => Buffer.from(bytes) }) };
      const definition = { fullName, methods: { createDisk: { ...methods.createDisk, requestType } } };
      const client = registry.operatorOf(definition);
      await refused(client.createDisk(disk({})), "InvalidArgumentError", says);
    }
  });

  it("a message above the limit -> RESOURCE_EXHAUSTED", async () => {
    const client = registry.operatorOf(DiskRegistryServiceDefinition, { maxMessageBytes: 16 * 1024 * 1024 });
    const labels = [{ name: "a", value: "x".repeat(5 * 1024 * 1024) }];
    const calling = client.setDiskLabels({ diskId: "x", labels });
    await refused(calling, "ResourceExhaustedError", "larger than max");
  });

  it("serves after all of this", async () => {
    const { hosts } = await registry.operator.listHosts({});
    expect(hosts.map((host) => host.hostId)).to.deep.equal(["h1", "h2"]);
  });
});
