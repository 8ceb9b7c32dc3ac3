import { TaskOutputType, TaskState } from "@diskmesh/api/director";
import { AbortedError, InvalidArgumentError, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CLOUD_CONFIG, manifest, TestDirector } from "../testing/test-director.js";

const CANARY = "canary-5ecre7";
const cpiConfig = (...cpis: string[]): string => `cpis:\n${cpis.map((cpi) => `- ${cpi}\n`).join("")}`;
const EAST = `{name: east, type: aws, properties: {key: ${CANARY}}}`;
const WEST = "{name: west, type: fleet, exec_path: /bin/cpi, properties: {}}";
const AZS = `azs: [{name: z1, cpi: east}, {name: z2, cpi: west}]
disk_types: [{name: fast, disk_size: 1024}]
`;

describe("cpi-configs", () => {
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start({ tuning: { queues: { queueLengths: { normal: 20 } } } });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    for (const [type, name] of [
      ["cpi", "default"],
      ["cpi", "more"],
      ["cloud", "default"],
    ] as const)
      await director.configs.deleteConfig({ type, name }).catch(() => {});
    director.dispatcher.contexts.length = 0;
    director.cpi.calls.length = 0;
    director.dispatcher.told.length = 0;
  });

  const update = (content: string, type = "cpi", name = "") => director.configs.updateConfig({ type, name, content });
  const deploy = async (text: string) => (await director.deployments.deploy({ manifest: text, wait: true })).task;
  const instances = async () => (await director.deployments.listInstances({ deployment: "web" })).instances;
  const contextsOf = (method: string) =>
    director.dispatcher.contexts.filter((each) => each.method === method).map(({ context }) => context);

  const BAD: [string, string, RegExp][] = [
    ["no name", "cpis:\n- type: aws\n", /line 2: cpis\.0\.name/],
    ["a name that is a number", "cpis:\n- name: 1\n  type: aws\n", /line 2: cpis\.0\.name/],
    ["no type", "cpis:\n- name: a\n", /line 2: cpis\.0\.type/],
    ["no cpis", "azs: []\n", /cpis/],
    ["an empty list", "cpis: []\n", /give at least one CPI/],
    ["a name that climbs", "cpis:\n- {name: ../a, type: b}\n", /line 2: cpis\.0\.name/],
    ["a relative exec_path", "cpis:\n- {name: a, type: b, exec_path: bin/cpi}\n", /absolute path/],
    ["properties that are a text", `cpis:\n- {name: a, type: b, properties: ${CANARY}}\n`, /cpis\.0\.properties/],
    ["a name twice", cpiConfig("{name: a, type: b}", "{name: a, type: c}"), /CPI `a` comes twice/],
    [
      "a former name that is another's name",
      cpiConfig("{name: a, type: b}", "{name: c, type: b, migrated_from: [{name: a}]}"),
      /CPI `a` comes twice .* with `a` and `c`/,
    ],
    [
      "the default CPI adopted twice",
      cpiConfig('{name: a, type: b, migrated_from: [{name: ""}]}', '{name: c, type: b, migrated_from: [{name: ""}]}'),
      /the default CPI \(the empty name\) comes twice/,
    ],
    ["not YAML", `cpis:\n- name: a\n  properties:\n    key: |${CANARY}\n`, /not valid YAML: line 4/],
    [
      "an alias of nothing",
      `cpis:\n- name: a\n  properties: {key: *${CANARY} }\n`,
      /not valid YAML: line 3: an alias has no anchor/,
    ],
  ];
  for (const [cause, content, effect] of BAD) {
    it(`${cause} -> refused with the position, and without quoting secrets`, async () => {
      const error = await rejection(update(content), InvalidArgumentError);
      expect(error.message).to.match(effect).and.not.contain(CANARY);
    });
  }

  it("a CPI name that another config uses -> refused", async () => {
    await update(cpiConfig(EAST));
    await rejection(update(cpiConfig(EAST), "cpi", "more"), Error, /CPI `east` comes twice/);
  });

  it("another version than expected -> ABORTED with both versions; the expected version -> stored", async () => {
    const first = await director.configs.updateConfig({
      type: "cpi",
      content: cpiConfig(EAST),
      expectedLatestId: 0,
    });
    const error = await rejection(
      director.configs.updateConfig({ type: "cpi", content: cpiConfig(WEST), expectedLatestId: 0 }),
    );
    const id = first.config?.configId ?? 0;
    expect(error)
      .to.be.instanceOf(AbortedError)
      .and.deep.include({
        about: { latest_id: String(id), expected_latest_id: "0" },
      });
    await director.configs.updateConfig({ type: "cpi", content: cpiConfig(WEST), expectedLatestId: id });
    const { config } = await director.configs.getConfig({ type: "cpi", configId: id });
    expect(config?.content).to.equal(cpiConfig(EAST));
    const { configs } = await director.configs.listConfigs({ type: "cpi", allVersions: true });
    expect(configs.map((each) => each.configId)).to.deep.equal([id + 1, id]);
    expect(configs.map((each) => each.content)).to.deep.equal(["", ""], "credentials are not listed");
  });

  it("a change of either config -> the dispatcher is sent the azs of each CPI, by former names, too", async () => {
    const told = async (...azs: string[][]) => {
      await eventually(() => {
        expect(director.dispatcher.told.at(-1)?.cpis.map((cpi) => cpi.azs)).to.deep.equal(azs);
      });
    };
    await update(cpiConfig(EAST, WEST));
    await told([], []);
    await update("azs: [{name: z1, cpi: west}, {name: z2}, {name: z3, cpi: west}, {name: z4, cpi: gone}]", "cloud");
    await told([], ["z1", "z3"]);
    await update(cpiConfig(EAST, "{name: new-west, type: fleet, migrated_from: [{name: west}, {name: ''}]}"));
    await told([], ["z1", "z3"]);
    await director.configs.deleteConfig({ type: "cloud" });
    await told([], []);
    await director.configs.deleteConfig({ type: "cpi" });
    await eventually(() => director.dispatcher.told.at(-1)?.cpiConfigVersion === "");
  });

  it("a config without a CPI or az in use -> accepted, with a warning that names it and its objects", async () => {
    await update(cpiConfig(EAST, WEST));
    await update(AZS, "cloud");
    expect((await deploy(manifest("web", 2)))?.state).to.equal(TaskState.DONE);
    expect((await update(cpiConfig(EAST))).warnings).to.deep.equal([]);
    const [cpi, ...none] = (await update(cpiConfig(WEST))).warnings;
    expect(none).to.deep.equal([]);
    expect(cpi).to.match(/^CPI `east` is in no cpi-config but has 2 VMs: .* migrated_from$/);
    const renamed = cpiConfig("{name: orient, type: aws, migrated_from: [{name: east}]}", WEST);
    expect((await update(renamed)).warnings).to.deep.equal([]);
    const content = "azs: [{name: z2, cpi: west}]\n";
    const { warnings } = await director.configs.diffConfig({ type: "cloud", content });
    expect(warnings).to.deep.equal([
      "AZ `z1` is in no cloud config but has 2 instances: none of them can be recreated",
    ]);
    expect((await update(content, "cloud")).warnings).to.deep.equal(warnings);
    await update(AZS.replace("east", "orient"), "cloud");
  });

  it("diff -> changed lines; a changed secret is marked but not shown", async () => {
    await update(`azs:\n- name: z1\n- name: z2\n`, "cloud");
    const diff = await director.configs.diffConfig({
      type: "cloud",
      content: "azs: [{name: z1},{name: z3}]",
    });
    expect(diff.lines.map(({ text, change }) => [text, change])).to.deep.equal([
      ["azs:", "LINE_CHANGE_UNSPECIFIED"],
      ["  - name: z1", "LINE_CHANGE_UNSPECIFIED"],
      ["  - name: z2", "LINE_CHANGE_REMOVED"],
      ["  - name: z3", "LINE_CHANGE_ADDED"],
    ]);
    await update(cpiConfig(EAST));
    const changed = cpiConfig(EAST.replace(CANARY, `other-${CANARY}`));
    const { lines, fromConfigId } = await director.configs.diffConfig({ type: "cpi", content: changed });
    expect(fromConfigId).to.be.greaterThan(0);
    expect(lines.filter((line) => line.change !== "LINE_CHANGE_UNSPECIFIED").map((line) => line.text)).to.deep.equal([
      "      key: <redacted>",
      "      key: <redacted>",
    ]);
    const same = await director.configs.diffConfig({ type: "cpi", content: `# more\n${cpiConfig(EAST)}` });
    expect(same.lines).to.deep.equal([]);
  });

  it("deleted -> no longer listed; deleted again -> NOT_FOUND", async () => {
    await update(cpiConfig(EAST));
    await director.configs.deleteConfig({ type: "cpi", name: "default" });
    await rejection(director.configs.getConfig({ type: "cpi" }), NotFoundError);
    await rejection(director.configs.deleteConfig({ type: "cpi" }), NotFoundError);
  });

  it("a changed config -> the dispatcher is sent the merged configs", async () => {
    await update(cpiConfig(EAST));
    await update(cpiConfig(WEST), "cpi", "more");
    await eventually(() => director.dispatcher.told.at(-1)?.cpis.length === 2);
    const [east, west] = director.dispatcher.told.at(-1)?.cpis ?? [];
    expect(east).to.deep.include({ name: "east", type: "aws", properties: { key: CANARY } });
    expect(west).to.deep.include({ name: "west", type: "fleet", execPath: "/bin/cpi", migratedFrom: [] });
  });

  it("azs with CPIs -> their CPIs create VMs and disks, and the recorded CPI takes precedence later", async () => {
    await update(cpiConfig(EAST, WEST));
    await update(AZS, "cloud");
    expect((await deploy(manifest("web", 2, ["z1", "z2"])))?.state).to.equal(TaskState.DONE);
    const [east, west] = await instances();
    expect([east?.cpi, west?.cpi]).to.deep.equal(["east", "west"]);
    expect(contextsOf("createVm").map(({ az, azCpi }) => [az, azCpi])).to.deep.equal([
      ["z1", "east"],
      ["z2", "west"],
    ]);
    expect((await director.provide("data", west?.instanceId ?? "")).state).to.equal(TaskState.DONE);
    // The az now uses another CPI, but existing disks and VMs stay with the CPI that created them.
    await update(AZS.replace("cpi: west", "cpi: east"), "cloud");
    expect((await director.detach("data")).state).to.equal(TaskState.DONE);
    expect((await director.provide("data", west?.instanceId ?? "")).state).to.equal(TaskState.DONE);
    expect(contextsOf("detachDisk")[0]).to.include({ cpi: "west", az: "z2", azCpi: "", unknownId: false });
    const refused = await director.disks.createDynamicDisk({
      diskName: "data",
      deployment: "web",
      az: "z2",
      diskPoolName: "fast",
      sizeBytes: 64 * 1024 * 1024,
      wait: true,
    });
    expect(refused.task?.result).to.equal("disk `data` uses CPI `west`, not CPI `east`");
    await director.detach("data");
    await director.delete("data");
  });

  it("more deploys than workers hang in a CPI -> deploys with another CPI finish, and so does a deletion", async () => {
    await update(cpiConfig(EAST, WEST));
    await update(AZS, "cloud");
    const west = Array.from({ length: 8 }, (_, index) => ({
      name: `w${index}`,
      azs: index < 4 ? ["z2"] : ["z2", "z1"],
    }));
    const gates = west.map(() => director.cpi.gate("info", "before"));
    const tasks = [];
    for (const { name, azs } of west) {
      const { task } = await director.deployments.deploy({ manifest: manifest(name, 1, azs) });
      tasks.push(task?.taskId ?? 0);
    }
    await Promise.all(gates.map((gate) => gate.reached));
    // Two more tasks than one CPI has workers.
    for (let index = 0; index < 2; index++)
      await director.deployments.deploy({ manifest: manifest(`x${index}`, 1, ["z2"]) });
    expect((await deploy(manifest("web", 1)))?.state).to.equal(TaskState.DONE);
    expect((await deploy(manifest("web", 0)))?.state).to.equal(TaskState.DONE);
    const { task } = await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    expect(task?.state).to.equal(TaskState.DONE);
    const { tasks: live } = await director.tasks.listTasks({
      states: [TaskState.QUEUED, TaskState.PROCESSING],
    });
    for (const { taskId } of live) await director.tasks.cancelTask({ taskId });
    for (const gate of gates) gate.release();
    for (const { taskId } of live) expect((await director.ended(taskId)).state).to.equal(TaskState.CANCELLED);
    for (const { name } of west) await director.deployments.deleteDeployment({ deployment: name, wait: true });
  });

  it("as many deploys as the queue admits hang in a CPI -> a deploy with another CPI is admitted", async () => {
    await update(cpiConfig(EAST, WEST));
    await update(AZS, "cloud");
    const gates = Array.from({ length: 4 }, () => director.cpi.gate("info", "before"));
    const taskIds: number[] = [];
    let refused: Error | undefined;
    while (refused === undefined && taskIds.length < 20) {
      await director.deployments.deploy({ manifest: manifest(`q${taskIds.length}`, 1, ["z2"]) }).then(
        ({ task }) => taskIds.push(task?.taskId ?? 0),
        (error: Error) => {
          refused = error;
        },
      );
      // A gate stops the first caller, so these tasks must reach the gates before further tasks start.
      if (taskIds.length === gates.length) await Promise.all(gates.map((gate) => gate.reached));
    }
    expect(refused).to.be.instanceOf(ResourceExhaustedError);
    expect(refused?.message).to.match(/^\d+ of the \d+ unfinished tasks of the queue normal use the same CPIs/);
    expect((await deploy(manifest("web", 1)))?.state).to.equal(TaskState.DONE);
    // Waiting tasks are cancelled first: a freed worker would otherwise run them to completion.
    for (const taskId of [...taskIds].reverse()) await director.tasks.cancelTask({ taskId });
    for (const gate of gates) gate.release();
    for (const taskId of taskIds) await director.ended(taskId);
    expect((await deploy(manifest("q0", 0, ["z2"])))?.state).to.equal(TaskState.DONE);
    for (const index of taskIds.keys())
      await director.deployments.deleteDeployment({ deployment: `q${index}`, wait: true });
  });

  it("a CPI renamed by migrated_from -> keeps its objects", async () => {
    await update(cpiConfig(EAST, WEST));
    await update(AZS, "cloud");
    await deploy(manifest("web", 1));
    const [instance] = await instances();
    await director.provide("data", instance?.instanceId ?? "");
    await director.detach("data");
    await update(cpiConfig("{name: orient, type: aws, migrated_from: [{name: east}]}", WEST));
    await update(AZS.replace("cpi: east", "cpi: orient"), "cloud");
    expect((await director.provide("data", instance?.instanceId ?? "")).state).to.equal(TaskState.DONE);
    const created = await director.disks.createDynamicDisk({
      diskName: "data",
      deployment: "web",
      az: "z1",
      diskPoolName: "fast",
      sizeBytes: 64 * 1024 * 1024,
      wait: true,
    });
    expect(created.task?.state).to.equal(TaskState.DONE);
    expect((await deploy(manifest("web", 0)))?.state).to.equal(TaskState.DONE);
    expect(director.cpi.vms.size).to.equal(0);
    expect((await director.delete("data")).state).to.equal(TaskState.DONE);
  });

  it("objects of the default CPI -> adopted by the empty former name, whatever the az says later", async () => {
    await update(CLOUD_CONFIG, "cloud");
    await deploy(manifest("web", 1));
    expect((await instances())[0]?.cpi).to.equal("");
    await update(cpiConfig(EAST, '{name: first, type: fleet, migrated_from: [{name: ""}]}'));
    await update(AZS.replace("cpi: west", "cpi: first"), "cloud");
    expect((await deploy(manifest("web", 0)))?.state).to.equal(TaskState.DONE);
    expect(contextsOf("deleteVm")[0]).to.include({ cpi: "", az: "", azCpi: "" });
    expect(director.cpi.vms.size).to.equal(0);
  });

  it("an az without a CPI despite a cpi-config -> an error with the remedy", async () => {
    await update(CLOUD_CONFIG, "cloud");
    await update(cpiConfig(EAST));
    const error = await rejection(director.deployments.deploy({ manifest: manifest("web", 1), wait: true }));
    expect(error.message).to.match(/AZ `z1` must specify a CPI when CPI config is defined/);
    await update("azs: [{name: z1, cpi: nobody}]", "cloud");
    const unknown = await rejection(director.deployments.deploy({ manifest: manifest("web", 1), wait: true }));
    expect(unknown.message).to.match(/CPI `nobody` of AZ `z1` not found in cpi-config: it has `east`/);
  });

  it("the dispatcher has lost the config -> the config is sent again, and the call is repeated", async () => {
    await update(cpiConfig(EAST, WEST));
    await update(AZS, "cloud");
    await eventually(() => director.dispatcher.told.at(-1)?.cpis.length === 2);
    director.dispatcher.told.length = 0;
    director.dispatcher.forgetConfigs();
    expect((await deploy(manifest("web", 1)))?.state).to.equal(TaskState.DONE);
    expect(director.dispatcher.told.length).to.be.above(0);
  });

  it("the director starts -> the dispatcher gets the config after it was fenced", async () => {
    await update(cpiConfig(EAST, WEST));
    await director.process.kill();
    director.dispatcher.told.length = 0;
    await director.process.start();
    await eventually(() => director.dispatcher.told.length > 0);
  });

  it("output of a CPI -> in the task's cpi output; requests to the CPI -> in the debug output", async () => {
    await update(CLOUD_CONFIG, "cloud");
    director.cpi.noise = ["line one", "line two"];
    const task = await deploy(manifest("web", 1));
    director.cpi.noise = [];
    const taskId = task?.taskId ?? 0;
    const output = (type: TaskOutputType, fromLine = 0) => director.tasks.getTaskOutput({ taskId, type, fromLine });
    await eventually(async () => (await output(TaskOutputType.CPI)).lines.length >= 2);
    expect((await output(TaskOutputType.CPI)).lines.slice(0, 2)).to.deep.equal(["line one", "line two"]);
    expect(await output(TaskOutputType.CPI, 1)).to.deep.include({ complete: true });
    expect((await output(TaskOutputType.DEBUG)).lines.join("\n")).to.match(
      /^create_vm with the default CPI, request task-\d+-[0-9a-f]{8}, \d+ ms: done, VM vm-\S+$/m,
    );
    expect(await output(TaskOutputType.RESULT)).to.deep.equal({
      lines: ["/deployments/web"],
      nextLine: 1,
      complete: true,
    });
    expect(JSON.parse((await output(TaskOutputType.EVENT)).lines[0] ?? "")).to.include({
      stage: "Preparing deployment",
    });
    await rejection(
      output(TaskOutputType.UNSPECIFIED),
      InvalidArgumentError,
      "type TASK_OUTPUT_TYPE_UNSPECIFIED is not known",
    );
  });

  it("after all that -> the director's logs contain no secret", () => {
    expect(director.process.logs).to.contain("leadership gained").and.not.contain(CANARY);
  });
});
