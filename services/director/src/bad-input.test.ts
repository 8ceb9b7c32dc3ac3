import { DynamicDiskServiceDefinition, TaskState, TaskType } from "@diskmesh/api/director";
import { InvalidArgumentError, InvalidStateError, NotFoundError, PermissionDeniedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createClient } from "@diskmesh/rpc";
import { expect } from "chai";
import { CLOUD_CONFIG, manifest, TestDirector } from "./testing/test-director.js";

type ErrorClass = new (message: string) => Error;

describe("bad input to the director", () => {
  let director: TestDirector;
  let instanceId: string;

  before(async () => {
    director = await TestDirector.start();
    [instanceId] = (await director.deploy("web", 1)) as [string];
  });
  after(() => director?.stop());

  const provide = (more: object): Promise<unknown> =>
    director.disks.provideDynamicDisk({
      diskName: "d",
      instanceId,
      diskPoolName: "fast",
      sizeBytes: 1,
      ...more,
    });
  const create = (more: object): Promise<unknown> =>
    director.disks.createDynamicDisk({
      diskName: "d",
      deployment: "web",
      az: "z1",
      diskPoolName: "fast",
      sizeBytes: 1,
      ...more,
    });
  const update = (content: string, name = "", type = "cloud"): Promise<unknown> =>
    director.configs.updateConfig({ type, name, content });
  const deploy = (text: string): Promise<unknown> => director.deployments.deploy({ manifest: text });
  const listTasks = (more: object): Promise<unknown> => director.tasks.listTasks(more);
  const watch = async (taskId: number, fromIndex = 0): Promise<void> => {
    for await (const _ of director.tasks.watchTask({ taskId, fromIndex })) return;
  };
  let deep: object = {};
  for (let depth = 0; depth < 30; depth++) deep = { deep };

  const ROWS: [string, () => Promise<unknown>, ErrorClass, RegExp][] = [
    ["no disk name", () => provide({ diskName: "" }), InvalidArgumentError, /disk_name is empty/],
    [
      "a disk name that climbs",
      () => provide({ diskName: "../x" }),
      InvalidArgumentError,
      /disk_name "\.\.\/x" is malformed/,
    ],
    [
      "a disk name of 10 KiB",
      () => provide({ diskName: "x".repeat(10_240) }),
      InvalidArgumentError,
      /disk_name .* is longer than 255/,
    ],
    [
      "a disk name with NUL",
      () => provide({ diskName: "a\0b" }),
      InvalidArgumentError,
      /disk_name "a\\u0000b" is malformed/,
    ],
    [
      "a malformed instance id",
      () => provide({ instanceId: "a/b" }),
      InvalidArgumentError,
      /instance_id "a\/b" is malformed/,
    ],
    ["a malformed pool", () => provide({ diskPoolName: " " }), InvalidArgumentError, /disk_pool_name/],
    ["no size", () => provide({ sizeBytes: 0 }), InvalidArgumentError, /size_bytes is 0/],
    ["a negative size", () => provide({ sizeBytes: -1 }), InvalidArgumentError, /size_bytes is -1/],
    [
      "metadata too long",
      () => provide({ metadata: { a: "x".repeat(20_000) } }),
      InvalidArgumentError,
      /metadata has \d+ bytes as JSON: the limit is 16384/,
    ],
    ["metadata too deep", () => provide({ metadata: deep }), InvalidArgumentError, /nested more than 16 deep/],
    [
      "metadata that is no number",
      () => provide({ metadata: { a: Number.NaN } }),
      InvalidArgumentError,
      /metadata contains NaN/,
    ],
    [
      "create with a disk type, and no deployment",
      () => create({ deployment: "" }),
      InvalidArgumentError,
      /disk_pool_name names a disk type/,
    ],
    ["a pool for an instance", () => provide({ pool: "ssd" }), InvalidArgumentError, /pool is of disks for hosts/],
    ["create without az", () => create({ az: "" }), InvalidArgumentError, /az is empty/],
    ["detach without name", () => director.disks.detachDynamicDisk({}), InvalidArgumentError, /disk_name is empty/],
    ["delete without name", () => director.disks.deleteDynamicDisk({}), InvalidArgumentError, /disk_name is empty/],
    [
      "get an unknown disk",
      () => director.disks.getDynamicDisk({ diskName: "nobody" }),
      NotFoundError,
      /disk `nobody` not found/,
    ],
    [
      "a negative page size",
      () => director.disks.listDynamicDisks({ pageSize: -1 }),
      InvalidArgumentError,
      /page_size is -1/,
    ],
    ["a malformed page token", () => listTasks({ pageToken: "zzz" }), InvalidArgumentError, /page_token is malformed/],
    [
      "a state that is none",
      () => listTasks({ states: [TaskState.UNSPECIFIED] }),
      InvalidArgumentError,
      /is not a task state/,
    ],
    ["task 0", () => director.tasks.getTask({ taskId: 0 }), InvalidArgumentError, /task_id is 0/],
    ["an unknown task", () => director.tasks.getTask({ taskId: 12345 }), NotFoundError, /there is no task 12345/],
    ["watching an unknown task", () => watch(12345), NotFoundError, /there is no task 12345/],
    ["watching from before the start", () => watch(1, -1), InvalidArgumentError, /from_index is -1/],
    [
      "a config of another type",
      () => update("a: 1", "", "runtime"),
      InvalidArgumentError,
      /does not support configs of type "runtime"/,
    ],
    ["a config with a malformed name", () => update(CLOUD_CONFIG, "../x"), InvalidArgumentError, /name "\.\.\/x"/],
    ["a config that is no YAML", () => update("azs: {"), InvalidArgumentError, /not valid YAML: line 1/],
    [
      "an unknown config",
      () => director.configs.getConfig({ type: "cloud", name: "nobody" }),
      NotFoundError,
      /there is no cloud config `nobody`/,
    ],
    ["an empty manifest", () => deploy(""), InvalidArgumentError, /the manifest is empty/],
    [
      "a manifest above the limit",
      () => deploy(`name: web\n# ${"x".repeat(1024 * 1024)}`),
      InvalidArgumentError,
      /the manifest has \d+ bytes: the limit is 1048576/,
    ],
    [
      "an az that no cloud config has",
      () => deploy(manifest("web", 1, ["z9"])),
      InvalidStateError,
      /AZ `z9` is in no cloud config: the AZs are `z1`, `z2`/,
    ],
    [
      "instances of an unknown deployment",
      () => director.deployments.listInstances({ deployment: "nobody" }),
      NotFoundError,
      /deployment `nobody` not found/,
    ],
    [
      "deleting a deployment without name",
      () => director.deployments.deleteDeployment({}),
      InvalidArgumentError,
      /deployment is empty/,
    ],
  ];
  for (const [cause, call, expected, text] of ROWS) {
    it(`${cause} -> ${expected.name}`, async () => {
      const error = await rejection(call, expected, text);
      if (error instanceof InvalidArgumentError)
        expect(error.about.field, "BadRequest names the field").to.match(/^[a-z_]+$/);
    });
  }

  const OF_HOSTS: readonly [string, (more: object) => Promise<unknown>][] = [
    ["ProvideDisk", (more) => provide({ instanceId: "", diskPoolName: "", hostId: "h1", ...more })],
    ["CreateDisk", (more) => create({ deployment: "", az: "", diskPoolName: "", hostId: "h1", ...more })],
    ["AttachDisk", (more) => director.disks.attachDynamicDisk({ diskName: "d", hostId: "h1", ...more })],
    ["DetachDisk", (more) => director.disks.detachDynamicDisk({ diskName: "d", hostId: "h1", ...more })],
    ["DeleteDisk", (more) => director.disks.deleteDynamicDisk({ diskName: "d", hostId: "h1", ...more })],
    ["ListDisks", (more) => director.disks.listDynamicDisks({ hostId: "h1", ...more })],
  ];
  const BAD_HOSTS = ["../h1", "h 1", "x".repeat(300), "h1\n", "a/b/h1"];
  const PLACED: readonly [string, object, RegExp][] = [
    ["pool", { pool: "a b" }, /pool/],
    ["pool", { pool: "x".repeat(300) }, /pool/],
    ["pool", { pool: "../ssd" }, /pool/],
    ["disk_pool_name", { diskPoolName: "fast" }, /give pool/],
    ["instance_id", { instanceId: "i1" }, /instance_id/],
  ];
  const EXPORTED: readonly [string, object, RegExp][] = [
    ["export_kind", { exportKind: 99 }, /does not know/],
    ["export_kind", { exportKind: -1 }, /does not know/],
    [
      "export_kind",
      { exportKind: 1, deployment: "web", az: "z1", hostId: "", diskPoolName: "fast" },
      /of disks for hosts/,
    ],
  ];
  for (const [method, call] of OF_HOSTS) {
    const rows = [
      ...BAD_HOSTS.map((hostId): [string, object, RegExp] => ["host_id", { hostId }, /host_id/]),
      ...(method === "ProvideDisk" || method === "CreateDisk" ? PLACED : []),
      ...(method === "CreateDisk" ? EXPORTED : []),
    ];
    for (const [field, more, says] of rows)
      it(`${method} with ${field} in ${JSON.stringify(more).slice(0, 80)} -> InvalidArgumentError`, async () => {
        const error = await rejection(() => call(more), InvalidArgumentError, says);
        expect(error.about.field).to.match(/^(host_id|instance_id|pool|disk_pool_name|export_kind)$/);
      });
  }

  it("after all that -> no task was started, and no config changed", async () => {
    const { tasks } = await director.tasks.listTasks({});
    expect(tasks.map((task) => task.type)).to.deep.equal([TaskType.UPDATE_DEPLOYMENT]);
    const { configs } = await director.configs.listConfigs({});
    expect(configs.map(({ configId, type, name }) => ({ configId, type, name }))).to.deep.equal([
      { configId: 1, type: "cloud", name: "default" },
    ]);
  });

  it("the same config again -> the same version; a changed config -> the next version", async () => {
    const same = await director.configs.updateConfig({ type: "cloud", name: "default", content: CLOUD_CONFIG });
    expect(same.config?.configId).to.equal(1);
    const next = await director.configs.updateConfig({
      type: "cloud",
      name: "default",
      content: `${CLOUD_CONFIG}# more\n`,
    });
    expect(next.config?.configId).to.equal(2);
    const more = await director.configs.updateConfig({ type: "cloud", name: "more", content: "azs: [{name: z3}]" });
    expect(more.config?.configId).to.equal(3);
    expect((await director.configs.getConfig({ type: "cloud" })).config?.configId).to.equal(2);
  });

  it("a caller of another role -> PERMISSION_DENIED", async () => {
    const tls = director.certs.files("disk-agent-host-1");
    const client = createClient(DynamicDiskServiceDefinition, {
      address: director.address,
      tls,
      serverRole: "director",
      defaultDeadlineMs: 60_000,
    });
    const error = await rejection(client.detachDynamicDisk({ diskName: "d" }));
    client.close();
    expect(error).to.be.instanceOf(PermissionDeniedError);
  });
});

describe("dynamic disks turned off", () => {
  it("any call -> FAILED_PRECONDITION that names the setting", async () => {
    const director = await TestDirector.start({ dynamicDisks: {} });
    try {
      for (const call of [
        () => director.detach("d"),
        () => director.delete("d"),
        () => director.provide("d", "i"),
        () => director.disks.listDynamicDisks({}),
      ]) {
        const error = await rejection(call());
        expect(error)
          .to.be.instanceOf(InvalidStateError)
          .with.property("message")
          .that.contains("dynamicDisks.enabled");
      }
    } finally {
      await director.stop();
    }
  });
});
