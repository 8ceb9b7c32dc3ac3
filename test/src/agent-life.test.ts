import { execFileSync } from "node:child_process";
import { basename } from "node:path";
import { type AgentCertificate, AgentCertificateState, type Instance, TaskState } from "@diskmesh/api/director";
import type { AgentClient } from "@diskmesh/mbus";
import { programOnPath } from "@diskmesh/process-cpi";
import { eventually, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import type { Clients } from "./mesh/clients.js";
import { byIndex, done, ProcessVms, vmsManifest } from "./process-vms/process-vms.js";

/** Calls by which a director manages the life of its VM, without calls that any agent may get at any time. */
const LIFE = ["update_settings", "apply", "get_state", "run_script", "start", "stop", "drain"];
const STOCK_BEAT_INTERVAL_MS = 30_000;
/**
 * Interval of heartbeats. Longer than the stand-in agent takes to restart on a busy machine, which delays its next
 * heartbeat.
 */
const BEAT_INTERVAL_MS = 5_000;

for (const agentName of ["the stand-in", "a stock bosh-agent"] as const)
  describe(`the life of a VM's agent: ${agentName}`, function () {
    this.timeout(600_000);
    const isStock = agentName === "a stock bosh-agent";
    const beatIntervalMs = isStock ? STOCK_BEAT_INTERVAL_MS : BEAT_INTERVAL_MS;
    // A bosh-agent's first heartbeat is lost when NATS does not know the agent yet. The next one comes after an
    // interval and a restart.
    const silentAfterMs = 2 * beatIntervalMs + 5_000;
    /** Arrival times of heartbeats by agent id. A test subscriber receives them, because directors change. */
    const beats = new Map<string, number[]>();
    let vms: ProcessVms;
    let operator: Clients;
    let agents: AgentClient;

    before(async function () {
      const path = programOnPath("bosh-agent");
      if (isStock && path === undefined) skipBecause(this, "bosh-agent is not on PATH");
      skipWithout(this, "tar");
      const agent = isStock ? { path: path ?? "" } : { heartbeat_interval_ms: beatIntervalMs };
      vms = await ProcessVms.start({ agent, ...resurrecting(silentAfterMs) });
      operator = vms.mesh.clients;
      agents = await vms.mesh.agents();
      agents.onHeartbeat((agentId) => beats.set(agentId, [...(beats.get(agentId) ?? []), performance.now()]));
      await vms.prepare();
    });

    after(() => vms?.[Symbol.asyncDispose]());

    it("receives its instance's data when its VM is created", async () => {
      await deploy(1);
      const instance = await only();
      if (!isStock) expect(lifeOf(instance)).to.deep.equal(["update_settings", "apply", "get_state", ...STARTED]);
      await expectIntroduced(instance);
    });

    it("sends its logs, which come as one file", async () => {
      const { agentId } = await only();
      const { code, out, err } = await vms.mesh.typed(
        "logs",
        "vms",
        "vm/0",
        "--type",
        "agent,job",
        "--dir",
        vms.mesh.folder,
        "--json",
      );
      expect(code, err).to.equal(0);
      const { file } = JSON.parse(out) as { file: string };
      expect(basename(file)).to.match(/^vms-vm-0-\d+\.tgz$/);
      const texts = execFileSync("tar", ["-xzOf", file], { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
      // The stand-in's log contains the calls that it received, a bosh-agent's log the actions that it ran.
      expect(texts).to.include(isStock ? agentId : "fetch_logs_with_signed_url");
    });

    it("gets links of dynamic disks, which a detach removes", async () => {
      const { instanceId, vmCid } = await only();
      await done(operator.disks.provideDynamicDisk({ ...DISK, instanceId }));
      const [provided] = (await operator.disks.listDynamicDisks({})).disks;
      expect(provided?.vmCid).to.equal(vmCid);
      if (!isStock) expect(vms.linksIn(vmCid)).to.deep.equal([provided?.diskCid]);
      await done(operator.disks.detachDynamicDisk({ diskName: "data", wait: true }));
      expect(vms.linksIn(vmCid)).to.deep.equal([]);
      await done(operator.disks.deleteDynamicDisk({ diskName: "data", wait: true }));
    });

    it("stops and starts its jobs, though it has none", async () => {
      const before = await only();
      const asked = lifeOf(before).length;
      const which = { selection: { deployment: "vms" }, wait: true };
      await done(operator.lifecycle.stop({ ...which, hard: false }));
      expect((await stateOf(before)).job_state).to.equal("stopped");
      await done(operator.lifecycle.start(which));
      expect((await stateOf(before)).job_state).to.equal("running");
      if (!isStock)
        // The test itself calls get_state twice.
        expect(lifeOf(before).slice(asked)).to.deep.equal([
          ...["run_script pre-stop", "drain", "stop", "run_script post-stop", "get_state"],
          ...[...STARTED, "get_state"],
        ]);
    });

    it("receives its instance's data again when its VM is recreated", async () => {
      const before = await only();
      await done(operator.lifecycle.recreate({ selection: { deployment: "vms" }, wait: true }));
      const now = await only();
      expect(now.vmCid).not.to.equal(before.vmCid);
      expect(now.instanceId).to.equal(before.instanceId);
      await expectIntroduced(now);
    });

    it("is replaced after a crash of its VM, which is recreated automatically", async () => {
      const before = await only();
      await done(operator.disks.provideDynamicDisk({ ...DISK, instanceId: before.instanceId }));
      await vms.crashVm(before.vmCid);
      const now = await eventually(async () => {
        const found = await only();
        expect(found.vmCid).not.to.equal(before.vmCid);
        expect(found).to.include({ vmState: "VM_STATE_RUNNING", jobsState: "JOBS_STATE_STARTED" });
        return found;
      });
      await expectIntroduced(now);
      expect(vms.linksIn(now.vmCid)).to.deep.equal([]);
      const [disk] = (await operator.disks.listDynamicDisks({})).disks;
      expect(disk?.vmCid).to.equal("");
      await done(operator.disks.attachDynamicDisk({ diskName: "data", instanceId: now.instanceId, wait: true }));
      await expectLinked();
    });

    it("gets another certificate with the authorities of NATS, and keeps its VM and its links", () =>
      renewed(() => vms.addNatsAuthority()));

    it("receives the detach notifications that it missed while it was stopped, and has no link in the end", async () => {
      const { vmCid } = await only();
      await expectLinked();
      vms.signalVm(vmCid, "SIGSTOP");
      await done(operator.disks.detachDynamicDisk({ diskName: "data", wait: true }));
      vms.signalVm(vmCid, "SIGCONT");
      await eventually(async () => (await operator.disks.listOwedRemovals({})).owedRemovals.length === 0);
      expect(vms.linksIn(vmCid)).to.deep.equal([]);
    });

    it("ends with its VM", async () => {
      const { agentId, vmCid } = await only();
      await done(operator.deployments.deleteDeployment({ deployment: "vms", wait: true }));
      await eventually(async () => (await agents.call(agentId, "ping", []).catch(() => "gone")) === "gone");
      expect(vms.linksIn(vmCid)).to.deep.equal([]);
    });

    const certificate = async () => (await operator.vms.listAgentCertificates({})).certificates[0] as AgentCertificate;
    const endOf = ({ expireTime }: AgentCertificate) => expireTime?.getTime() ?? 0;

    /**
     * Expects that after `because` the VM has another certificate, NATS admitted the agent each time, and no heartbeat
     * was missed.
     */
    async function renewed(because: () => Promise<void>): Promise<void> {
      // A renewal's task ends after the connection with the former certificate, about which nats-server may still ask.
      const tasksUnderWay = async () =>
        (await operator.tasks.listTasks({ states: [TaskState.QUEUED, TaskState.PROCESSING] })).tasks;
      await eventually(async () => expect(await tasksUnderWay()).to.deep.equal([]));
      const [before, held] = [await only(), await certificate()];
      const beatsAtMs = () => beats.get(before.agentId) ?? [];
      await eventually(() => beatsAtMs().length > 0);
      const heardBefore = beatsAtMs().length;
      const saidBefore = vms.mesh.nats.logs.length;
      await because();
      await eventually(async () => {
        const now = await certificate();
        expect(now).to.include({ agentId: held.agentId, state: AgentCertificateState.VALID });
        expect(endOf(now)).not.to.equal(endOf(held));
      });
      expect((await only()).vmCid).to.equal(before.vmCid);
      // A bosh-agent with the dummy platform forgets its started jobs when its process ends.
      await expectIntroduced(before, isStock ? "unknown" : "running");
      await expectLinked();
      const errors = vms.mesh.nats.logs
        .slice(saidBefore)
        .split("\n")
        .filter((line) => line.includes("[ERR]"));
      expect(errors).to.deep.equal([]);
      const heardAtMs = beatsAtMs().slice(heardBefore - 1);
      const gapsMs = heardAtMs.map((atMs, index) => (heardAtMs[index + 1] ?? performance.now()) - atMs);
      expect(Math.max(...gapsMs), "the longest time without a beat").to.be.below(silentAfterMs);
    }

    /**
     * A restarted agent has no links until it is sent its disks again; a bosh-agent with the dummy platform never has
     * links.
     */
    async function expectLinked(): Promise<void> {
      const { vmCid } = await only();
      const [disk] = (await operator.disks.listDynamicDisks({})).disks;
      expect(disk?.vmCid).to.equal(vmCid);
      if (!isStock) await eventually(() => expect(vms.linksIn(vmCid)).to.deep.equal([disk?.diskCid]));
    }

    async function deploy(instances: number): Promise<void> {
      await done(operator.deployments.deploy({ manifest: vmsManifest(instances), wait: true }));
    }

    async function only(): Promise<Instance> {
      const { instances } = await operator.deployments.listInstances({ deployment: "vms" });
      return byIndex(instances)[0] as Instance;
    }

    async function stateOf({ agentId }: Instance): Promise<Record<string, unknown>> {
      return (await agents.call(agentId, "get_state", ["full"])) as Record<string, unknown>;
    }

    /** Expects the director to show the state that the agent reports. */
    async function expectIntroduced(instance: Instance, jobState = "running"): Promise<void> {
      const { deployment, group, index, instanceId, az, agentId } = instance;
      const state = await stateOf(instance);
      expect(state).to.include({ deployment, name: group, index, id: instanceId, az, agent_id: agentId });
      expect(state).to.have.property("job_state", jobState);
      expect(state.vitals).to.be.an("object");
    }

    /** Returns the agent's lifecycle calls as protocol methods, with the names of scripts. */
    function lifeOf({ vmCid }: Instance): string[] {
      const calls = vms.asked(vmCid).filter(([method]) => LIFE.includes(String(method)));
      return calls.map(([method, first]) => (method === "run_script" ? `run_script ${first}` : String(method)));
    }
  });

const DISK = { diskName: "data", diskPoolName: "small", sizeBytes: 1024 * 1024, wait: true };
/** Longer than a VM is silent while a test stops it, so that the director does not recreate it. */
const resurrecting = (silentAfterMs: number) => ({
  director: {
    resurrection: { enabled: true },
    tuning: {
      resurrection: { silentAfterMs, deadAfterMs: 3_600_000, checkIntervalMs: 200 },
      agents: { detachTimeoutMs: 1_000, lostAfterMs: 3_000 },
    },
  },
});
const STARTED = ["apply", "run_script pre-start", "start", "get_state", "run_script post-start"];
