import { X509Certificate } from "node:crypto";
import { appendFileSync, copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AgentCertificateState, TaskOutputType } from "@diskmesh/api/director";
import { type HostId, InvalidArgumentError, NotFoundError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { connectNats, type NatsConnection } from "@diskmesh/mbus";
import {
  createHostAuthority,
  hostRequest,
  issueCertificate,
  openAgentAuthority,
  openHostAuthority,
  parseHostRequest,
  signHostCertificate,
} from "@diskmesh/pki";
import { eventually, leaveToVerify, type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { manifest, TestDirector } from "../testing/test-director.js";
import { certOf, type VmAgent, withAgents } from "../testing/vm-agents.js";

const { VALID, DUE, ENDED, LEFT_BEHIND } = AgentCertificateState;
/** Certificate lifetime: 40 s, longer than a busy machine takes to create a VM. */
const SHORT_DAYS = 40 / 86_400;

describe("agents with their own certificates, admitted by the director's auth callout", () => {
  let director: TestDirector;
  let revokedFile: string;
  /** TLS files of the director; tests replace them. */
  let own: { readonly caFile: string; readonly certFile: string; readonly keyFile: string };
  let agents: VmAgent[] = [];
  const connections: NatsConnection[] = [];

  before(async () => {
    const certs = await testCertificates();
    revokedFile = join(temporaryFolder(), "revoked");
    writeFileSync(revokedFile, "");
    const { caFile, certFile, keyFile } = certs.files("director");
    const folder = temporaryFolder();
    own = { caFile, certFile: join(folder, "director.pem"), keyFile: join(folder, "director-key.pem") };
    copyFileSync(certFile, own.certFile);
    copyFileSync(keyFile, own.keyFile);
    director = await TestDirector.start({ tls: { ...own, revokedFile } }, { hostIds: [], ownCertificates: true });
    agents = await withAgents(director, 2, () => director.deploy("web", 2));
  });
  after(async () => {
    await Promise.all(connections.map((connection) => connection.close()));
    await Promise.all(agents.map(({ agent }) => agent.stop()));
    await director?.stop();
  });

  /** Connects with a client certificate. `refused` lists the operations that NATS refuses, e.g. "publish agent.x". */
  async function connectAs(files: ReturnType<TestCertificates["files"]>) {
    const refused: string[] = [];
    const failures: string[] = [];
    const note = (fields: object, message: string) => {
      const { operation, subject } = fields as { operation?: string; subject?: string };
      if (message === "NATS server error received") refused.push(`${operation} ${subject?.replaceAll('"', "")}`);
      if (message === "NATS connection failed") failures.push(message);
    };
    const connection = await connectNats({
      servers: [director.nats.address],
      tls: files,
      name: "test",
      reconnect: { minDelayMs: 50, maxDelayMs: 200 },
      log: { debug: note, info: note, warn: note, error: note },
    });
    connections.push(connection);
    return { connection, refused, failures };
  }

  async function isLetIn(files: ReturnType<TestCertificates["files"]>): Promise<boolean> {
    const { connection, failures } = await connectAs(files);
    await eventually(() => connection.isConnected || failures.length > 0);
    const { isConnected } = connection;
    await connection.close();
    return isConnected;
  }

  it("private keys appear neither in the state, nor in logs, nor in task outputs", async () => {
    const keys = agents.map(({ vm }) => certOf(vm).private_key.split("\n")[1] as string);
    const { tasks } = await director.tasks.listTasks({});
    const outputs = await Promise.all(
      tasks.flatMap(({ taskId }) =>
        [TaskOutputType.EVENT, TaskOutputType.DEBUG, TaskOutputType.CPI].map(async (type) =>
          JSON.stringify((await director.tasks.getTaskOutput({ taskId, type }).catch(() => ({}))) ?? ""),
        ),
      ),
    );
    const folder = join(director.folder, "state");
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
    const state = files.map((file) => readFileSync(join(file.parentPath, file.name), "latin1")).join("");
    const events = JSON.stringify(await director.events.listEvents({}));
    for (const key of keys) {
      expect(key).to.have.lengthOf(64);
      for (const place of [director.process.logs, state, events, ...outputs]) expect(place).not.to.contain(key);
    }
    // A state that contains the agent id shows that the check above searched the right output.
    expect(state).to.contain(agents[0]?.vm.agentId);
  });

  /** Issues a further certificate for a host's agent, with a new key. */
  async function hostCertificate(name: string) {
    const { folder } = director.certs;
    const ca = { certFile: join(folder, "ca.pem"), keyFile: join(folder, "ca-key.pem") };
    const authority = await openAgentAuthority(ca, { makes: false });
    const identity = { role: "disk-agent", name } as const;
    const names = { commonName: name, dnsNames: [], ipAddresses: [], validDays: 1, usages: ["client"] } as const;
    const { certPem, keyPem } = await issueCertificate(authority, { identity, ...names });
    const own = temporaryFolder();
    const files = { caFile: ca.certFile, certFile: join(own, "cert.pem"), keyFile: join(own, "key.pem") };
    writeFileSync(files.certFile, certPem);
    writeFileSync(files.keyFile, keyPem, { mode: 0o600 });
    return { files, serialNumber: new X509Certificate(certPem).serialNumber };
  }

  it("a host's certificate is revoked -> its connections are closed; other connections of this and other hosts stay", async () => {
    const others = [
      await connectAs((await hostCertificate("stolen")).files),
      await connectAs((await hostCertificate("neighbour")).files),
    ];
    for (const { connection } of others) await connection.whenConnected(AbortSignal.timeout(20_000));
    let losses = 0;
    for (const { connection } of others) connection.onDisconnected(() => losses++);
    // Repeated because the director also checks all connections twice after a change of VMs, which could close the
    // connection even if the revocation file were ignored.
    for (let round = 1; round <= 3; round++) {
      const { files, serialNumber } = await hostCertificate("stolen");
      const { connection, failures } = await connectAs(files);
      await connection.whenConnected(AbortSignal.timeout(20_000));
      const failuresBefore = failures.length;
      appendFileSync(revokedFile, `${serialNumber} # stolen\n`);
      await eventually(() => expect(connection.isConnected).to.equal(false));
      await eventually(() => expect(failures).to.have.lengthOf.above(failuresBefore + 1));
      expect(connection.isConnected).to.equal(false);
    }
    expect(losses).to.equal(0);
    for (const { connection } of others) expect(connection.isConnected).to.equal(true);
  });

  it("a host that joined -> admitted as host agent; its authority's certificates for others -> refused", async () => {
    const { folder } = director.certs;
    const read = (name: string) => readFileSync(join(folder, name), "utf8");
    const own = temporaryFolder();
    const ca = { certFile: join(own, "hosts-ca.pem"), keyFile: join(own, "hosts-ca-key.pem") };
    const made = await createHostAuthority({ certPem: read("ca.pem"), keyPem: read("ca-key.pem") });
    writeFileSync(ca.certFile, made.certPem);
    writeFileSync(ca.keyFile, made.keyPem, { mode: 0o600 });
    const write = (chainPem: string, keyPem: string) => {
      const place = temporaryFolder();
      const [caFile, certFile, keyFile] = [join(folder, "ca.pem"), join(place, "cert.pem"), join(place, "key.pem")];
      const files = { caFile, certFile, keyFile };
      writeFileSync(files.certFile, chainPem);
      writeFileSync(files.keyFile, keyPem, { mode: 0o600 });
      return files;
    };
    const authority = await openHostAuthority(ca);
    const names = { commonName: "host h1", dnsNames: [], ipAddresses: [], validDays: 1, usages: ["client"] } as const;
    const forged = async (change: Partial<Parameters<typeof issueCertificate>[1]>) => {
      const identity = { role: "disk-agent", name: "h1" } as const;
      const { certPem, keyPem } = await issueCertificate(authority, { ...names, identity, ...change });
      return write(certPem + authority.certPem, keyPem);
    };
    const { keyPem } = await issueCertificate(authority, { ...names, identity: { role: "disk-agent", name: "h1" } });
    const request = await parseHostRequest(await hostRequest("h1" as HostId, keyPem), "h1" as HostId);
    const { connection, refused } = await connectAs(
      write((await signHostCertificate(authority, request)).chainPem, keyPem),
    );
    await connection.whenConnected(AbortSignal.timeout(20_000));
    connection.publish("hm.agent.heartbeat.h1", Buffer.from("{}"));
    connection.publish("hm.agent.heartbeat.h2", Buffer.from("{}"));
    await eventually(() => expect(refused).to.deep.equal(["publish hm.agent.heartbeat.h2"]));
    for (const change of [
      { identity: { role: "director", name: "" } },
      { identity: { role: "disk-agent", name: "h1" } },
      { dnsNames: ["spiffe://diskmesh/director"] },
    ] as const)
      expect(await isLetIn(await forged(change)), JSON.stringify(change)).to.equal(false);
  });

  it("a former certificate of the director is revoked -> its connections are closed; agents stay connected", async () => {
    const [agent] = agents as [VmAgent];
    let losses = 0;
    const { connection: bystander } = await connectAs(agent.files);
    await bystander.whenConnected(AbortSignal.timeout(20_000));
    bystander.onDisconnected(() => losses++);
    const formerFiles = director.certs.files("director");
    const { connection: thief } = await connectAs(formerFiles);
    await thief.whenConnected(AbortSignal.timeout(20_000));
    let cuts = 0;
    thief.onDisconnected(() => cuts++);
    const ca = { certFile: formerFiles.caFile, keyFile: join(director.certs.folder, "ca-key.pem") };
    const authority = await openAgentAuthority(ca, { makes: false });
    const { certPem, keyPem } = await issueCertificate(authority, {
      identity: { role: "director", name: "" },
      commonName: "director",
      dnsNames: ["localhost"],
      ipAddresses: ["127.0.0.1"],
      validDays: 1,
      usages: ["server", "client"],
    });
    const { logs } = director.process;
    writeFileSync(own.keyFile, keyPem);
    writeFileSync(own.certFile, certPem);
    const since = () => director.process.logs.slice(logs.length);
    await eventually(() => expect(since()).to.contain("TLS files reloaded"));
    expect(cuts).to.equal(0);
    const former = new X509Certificate(readFileSync(formerFiles.certFile)).serialNumber;
    appendFileSync(revokedFile, `${former} # its holder was burgled\n`);
    // nats-server ignores revocations, so the client may reconnect; the director then has it disconnected again.
    await eventually(() => expect(cuts).to.be.above(0));
    await eventually(() => expect(since()).to.contain("NATS connection opened"));
    await thief.close();
    expect(losses).to.equal(0);
    expect(bystander.isConnected).to.equal(true);
  });

  it("an agent cannot publish, subscribe or reply on subjects of others", async () => {
    const [a, b] = agents.map(({ vm }) => vm.agentId) as [string, string];
    const { connection, refused } = await connectAs((agents[0] as VmAgent).files);
    await connection.whenConnected(AbortSignal.timeout(20_000));
    const health = ["heartbeat", "alert", "shutdown"];
    const publish = {
      own: [...health.map((kind) => `hm.agent.${kind}.${a}`), `director.some.${a}.request`],
      others: [
        ...health.map((kind) => `hm.agent.${kind}.${b}`),
        ...[`agent.${a}`, `agent.${b}`, "hm.director.alert", "director.some.request", `director.some.${b}.request`],
        ...[
          `director.some.${a}.request.more`,
          `director.${a}`,
          "_INBOX.x",
          "$SYS.REQ.SERVER.PING",
          "$SYS.REQ.USER.AUTH",
        ],
      ],
    };
    const subscribe = {
      own: [`agent.${a}`],
      others: [
        ...[
          `agent.${b}`,
          "agent.*",
          "agent.>",
          ">",
          "*",
          "*.*",
          `*.${a}`,
          "director.>",
          `director.*.${a}.*`,
          "_INBOX.>",
        ],
        ...[
          "hm.>",
          "hm.director.alert",
          ...health.map((kind) => `hm.agent.${kind}.${a}`),
          "$SYS.>",
          "$SYS.REQ.USER.AUTH",
        ],
      ],
    };
    const nothing = new Uint8Array();
    for (const subject of [...publish.own, ...publish.others]) connection.publish(subject, nothing);
    for (const subject of [...subscribe.own, ...subscribe.others]) connection.subscribe(subject, () => {});
    const expected = [
      ...publish.others.map((subject) => `publish ${subject}`),
      ...subscribe.others.map((subject) => `subscription ${subject}`),
    ];
    await eventually(() => expect(refused).to.include.members(expected));
    expect(refused).to.have.members(expected);
  });

  it("a VM is deleted -> its certificate is refused, and its connections are closed", async () => {
    const [kept, gone] = agents as [VmAgent, VmAgent];
    const thief = await connectAs(gone.files);
    const neighbour = await connectAs(kept.files);
    for (const { connection } of [thief, neighbour]) await connection.whenConnected(AbortSignal.timeout(20_000));
    let losses = 0;
    neighbour.connection.onDisconnected(() => losses++);
    await director.vms.deleteVm({ vmCid: gone.vm.vmCid, wait: true });
    await eventually(() => expect(thief.connection.isConnected).to.equal(false));
    await eventually(() => expect(thief.failures).to.have.lengthOf.above(1));
    expect(thief.connection.isConnected).to.equal(false);
    expect(neighbour.connection.isConnected).to.equal(true);
    expect(losses).to.equal(0);
  });

  const certificates = async () => (await director.vms.listAgentCertificates({ deployment: "web" })).certificates;
  const authorities = async () => (await director.vms.listAgentAuthorities({})).authorities;
  const stateOf = async ({ vm }: VmAgent) => {
    const found = (await certificates()).find(({ agentId }) => agentId === vm.agentId);
    return found?.state;
  };

  /** Deletes the director's CA for agents; the restarted director creates another. */
  async function changeAuthority(): Promise<void> {
    await director.process.kill();
    for (const name of ["agents-ca.pem", "agents-ca-key.pem"]) rmSync(join(director.folder, name));
    await director.process.start();
    appendFileSync(join(director.folder, "nats-ca.pem"), readFileSync(join(director.folder, "agents-ca.pem")));
    director.nats.signal("SIGHUP");
  }

  it("the CA changes -> each agent gets a certificate from it and keeps its VM; then the former CA is forgotten", async function () {
    leaveToVerify(this);
    const before = await authorities();
    expect(before.map(({ signs }) => signs)).to.deep.equal([true]);
    const [former] = agents.filter(({ vm }) => director.cpi.vms.has(vm.vmCid)) as [VmAgent];
    const old = {
      ...former.files,
      certFile: join(former.folder, "old.pem"),
      keyFile: join(former.folder, "old-key.pem"),
    };
    copyFileSync(former.files.certFile, old.certFile);
    copyFileSync(former.files.keyFile, old.keyFile);
    const vms = [...director.cpi.vms.keys()];
    await changeAuthority();
    await eventually(async () => {
      expect((await authorities()).map(({ signs, agents }) => ({ signs, agents }))).to.deep.equal([
        { signs: true, agents: vms.length },
      ]);
    });
    const [now] = await authorities();
    expect(now?.authorityId).not.to.equal(before[0]?.authorityId);
    for (const { state, authorityIds, expireTime } of await certificates()) {
      expect(state).to.equal(VALID);
      expect(authorityIds).to.deep.equal([now?.authorityId]);
      expect(((expireTime?.getTime() ?? 0) - Date.now()) / 86_400_000).to.be.within(89.9, 90);
    }
    expect([...director.cpi.vms.keys()]).to.deep.equal(vms);
    await eventually(async () => expect(await isLetIn(old)).to.equal(false));
  });

  it("an agent is stopped during a change of the CA -> the former CA stays until an operator lists the agents left behind", async function () {
    leaveToVerify(this);
    const [awake, asleep] = await withAgents(director, 2, () => director.deploy("web", 3));
    if (awake === undefined || asleep === undefined) throw new Error("there are not two new VMs");
    agents.push(awake, asleep);
    await asleep.agent.stop();
    await changeAuthority();
    await eventually(async () => expect(await stateOf(awake)).to.equal(VALID));
    expect(await stateOf(asleep)).to.equal(DUE);
    const [former, signing] = await authorities();
    const forget = (authorityId: string | undefined, ...leftBehind: string[]) =>
      director.vms.forgetAgentAuthority({ authorityId: authorityId ?? "", leftBehind });
    expect(signing?.signs).to.equal(true);
    await rejection(() => forget(signing?.authorityId), InvalidArgumentError);
    const { message } = await rejection(() => forget(former?.authorityId), InvalidArgumentError);
    expect(message).to.contain(asleep.vm.agentId);
    await eventually(async () => expect((await authorities())[0]?.agents).to.equal(1));
    await forget(former?.authorityId, asleep.vm.agentId);
    await rejection(() => forget(former?.authorityId), NotFoundError);
    expect((await authorities()).map(({ signs }) => signs)).to.deep.equal([true]);
    expect(await stateOf(asleep)).to.equal(LEFT_BEHIND);
    await eventually(async () => expect(await isLetIn(asleep.files)).to.equal(false));
    await director.deploy("web", 3);
    expect(director.cpi.vms.has(asleep.vm.vmCid)).to.equal(true);
    const { instanceId } = (await certificates()).find(({ agentId }) => agentId === asleep.vm.agentId) ?? {};
    const selection = { deployment: "web", group: "db", instance: instanceId };
    const [anew] = await withAgents(director, 1, () => director.lifecycle.recreate({ selection, wait: true }));
    if (anew === undefined) throw new Error("the VM was not made anew");
    agents.push(anew);
    expect(director.cpi.vms.has(asleep.vm.vmCid)).to.equal(false);
    expect(await stateOf(anew)).to.equal(VALID);
  });

  it("an agent is stopped until its certificate has expired -> listed so; only an operator's request recreates its VM", async function () {
    leaveToVerify(this);
    const { agents: settings } = director.config as { agents: { certificates: object } };
    const certificates = { ...settings.certificates, validDays: SHORT_DAYS };
    await director.process.restart({ ...director.config, agents: { ...settings, certificates } });
    const [asleep] = await withAgents(director, 1, () => director.deploy("web", 4));
    if (asleep === undefined) throw new Error("there is no new VM");
    agents.push(asleep);
    await asleep.agent.stop();
    await eventually(async () => expect(await stateOf(asleep)).to.equal(ENDED), { timeoutMs: 120_000 });
    await eventually(() => expect(director.process.logs).to.contain('"alert":"agent_certificates"'));
    await eventually(async () => expect(await isLetIn(asleep.files)).to.equal(false));
    const { taskId } = await director.deployManifest(manifest("web", 4));
    const told = (await director.eventTexts(taskId)).join("\n");
    expect(told).to.contain(
      "the agent's certificate has ended, so it is not known whether its VM runs: recreate the VM",
    );
    expect(director.cpi.vms.has(asleep.vm.vmCid)).to.equal(true);
    await director.process.restart(director.config);
    const { instanceId } = (await director.vms.listAgentCertificates({})).certificates.find(
      ({ agentId }) => agentId === asleep.vm.agentId,
    ) as { instanceId: string };
    const selection = { deployment: "web", group: "db", instance: instanceId };
    const [anew] = await withAgents(director, 1, () => director.lifecycle.recreate({ selection, wait: true }));
    if (anew === undefined) throw new Error("the VM was not made anew");
    agents.push(anew);
    expect(director.cpi.vms.has(asleep.vm.vmCid)).to.equal(false);
    expect(await stateOf(anew)).to.equal(VALID);
  });
});
