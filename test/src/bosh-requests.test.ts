import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { BoshCli, YAML } from "./bosh/bosh-cli.js";
import { configSteps } from "./bosh/configs.js";
import { deploymentSteps, vmsOf } from "./bosh/deployments.js";
import { upkeepSteps } from "./bosh/upkeep.js";
import { CLOUD_CONFIG, manifest, type Seen } from "./bosh/walk.js";
import { openStore, type Store } from "./mesh/stores.js";
import { ProcessVms } from "./process-vms/process-vms.js";

/** Recorded commands of the stock CLI, without the names of deployments, disks and other arguments. */
const RECORDED = [
  ...["env", "log-in", "update-config --type=cpi", "update-config --type=cloud", "update-cloud-config"],
  ...["update-cpi-config", "update-runtime-config", "configs", "config", "cloud-config", "cpi-config", "delete-config"],
  ...["upload-stemcell", "upload-stemcell --fix", "upload-stemcell URL", "stemcells", "delete-stemcell"],
  ...["deploy", "deploy --recreate --fix --canaries --max-in-flight --skip-drain", "deploy --dry-run"],
  ...["deployments", "deployment", "manifest", "-d vms", "-d vms --vitals", "vms", "-d instances --ps", "instances"],
  ...["-d instances --details", "stop", "stop --hard", "start GROUP", "restart GROUP/ID", "recreate GROUP/INDEX"],
  ...["recreate --no-converge --fix", "stop --hard --no-converge --skip-drain", "disks", "disks --orphaned"],
  ...["attach-disk", "orphan-disk", "delete-disk", "delete-vm", "tasks", "tasks --recent", "tasks --recent=5 -a"],
  ...["task 1", "task 1 --event", "task 1 --result", "task 1 --debug", "task 1 --cpi", "task --all", "cancel-task"],
  ...["cancel-tasks", "locks", "events", "events --deployment --before-id", "ignore", "unignore", "orphaned-vms"],
  ...["clean-up", "clean-up --all --dry-run", "cloud-check", "cloud-check --report", "snapshots", "take-snapshot"],
  ...["variables", "errands", "run-errand", "update-resurrection", "releases", "networks --orphaned"],
  ...["curl POST /dynamic_disks/provide", "curl POST /dynamic_disks/d/detach", "curl DELETE /dynamic_disks/d"],
  ...["curl /dynamic_disks", "delete-deployment", "delete-deployment --force"],
];
const STEPS = [...configSteps, ...deploymentSteps, ...upkeepSteps];

/** Runs against processes: a director, NATS, and a dispatcher with a CPI whose VMs are agents in folders. */
describe("the recorded commands of the bosh CLI, request by request", () => {
  let vms: ProcessVms;
  let cli: BoshCli;
  const seen: Seen = { instanceIds: [], vmCids: [], diskCids: [], taskId: 0, eventId: 0 };

  before(async function () {
    leaveToVerify(this);
    vms = await ProcessVms.start();
    cli = new BoshCli(vms);
  });
  after(() => vms?.[Symbol.asyncDispose]());

  it("are all tested below", () => {
    expect([...new Set(STEPS.map(([command]) => command))]).to.have.members(RECORDED);
  });

  for (const [command, run] of STEPS)
    it(command, async () => {
      await cli.begin();
      await run(cli, seen);
    });
});

describe("a deploy of the bosh CLI whose director is killed in the middle", () => {
  let store: Store;
  let vms: ProcessVms;

  before(async function () {
    leaveToVerify(this);
    const found = await openStore("mongodb", { host: "127.0.0.1", launcher: [] });
    if (typeof found === "string") skipBecause(this, found);
    store = found;
    vms = await ProcessVms.start({ sharedTablet: { ...store.tablet?.("director"), leaseTimeMs: 4_000 } });
  });
  after(async () => {
    await vms?.[Symbol.asyncDispose]();
    await store?.database?.kill();
  });

  it("is followed to its end at the same address, through the director that takes over", async () => {
    const cli = new BoshCli(vms);
    const operator = vms.mesh.clients;
    await vms.prepare();
    await operator.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    await cli.begin();
    const started = await cli.send("POST", "/deployments", YAML, manifest(3));
    expect(started.status, started.body).to.equal(302);
    const location = started.headers.location ?? "";
    const read = async (path: string, headers?: Record<string, string>) => {
      // The CLI, too, retries while no director answers or leads.
      const answer = await cli.send("GET", path, headers).catch(() => undefined);
      return answer === undefined || answer.status === 503 ? undefined : answer;
    };
    let events = "";
    let isKilled = false;
    await eventually(async () => {
      const range = { range: `bytes=${Buffer.byteLength(events)}-` };
      const more = await read(`${location}/output?type=event`, range);
      if (more?.status === 206) events += more.body;
      if (!isKilled && events.includes('"finished"')) {
        await vms.mesh.process("director").kill();
        isKilled = true;
      }
      const task = await read(location);
      expect(JSON.parse(task?.body ?? "{}")).to.include({ state: "done" });
    });
    expect(isKilled).to.equal(true);
    const whole = await cli.send("GET", `${location}/output?type=event`);
    expect(whole.body.startsWith(events), "what was read is what is there").to.equal(true);
    expect((await vmsOf(cli)).map(({ job_state }) => job_state)).to.deep.equal(["running", "running", "running"]);
  });
});
