import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { DynamicDiskServiceDefinition, TaskServiceDefinition, TaskState } from "@diskmesh/api/director";
import { hashPassword } from "@diskmesh/pki/password-hash";
import { createClient } from "@diskmesh/rpc";
import { databaseUrl, documentDatabase, newTabletName, removeTablet } from "@diskmesh/tablet/testing";
import {
  eventually,
  freePort,
  type ServiceProcess,
  skipBecause,
  spawnService,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { expect } from "chai";
import { HttpClient } from "./testing/http-client.js";
import { manifest, TestDirector, TUNED_MAIN } from "./testing/test-director.js";

/** Longer than a busy machine delays a renewal of the lease. */
const LEASE_TIME_MS = 4_000;
/** Another loopback address, so that both directors listen for HTTPS at the same port, as on two machines. */
const STANDBY_HOST = "127.0.0.2";

describe("two directors on one database", () => {
  let first: TestDirector;
  let httpPort: number;
  let users: object[];
  let standby: ServiceProcess | undefined;
  let remove: () => Promise<void> = async () => {};

  before(async function () {
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    const [url, name] = [databaseUrl(found.url), newTabletName()];
    remove = () => removeTablet(url, name);
    httpPort = await freePort();
    users = [{ name: "admin", passwordHash: await hashPassword("pw") }];
    const http = { listen: { port: httpPort }, users };
    first = await TestDirector.start({ tablet: { storage: url, name, leaseTimeMs: LEASE_TIME_MS }, http });
  });
  after(async () => {
    await standby?.kill();
    await first?.stop();
    await remove();
  });

  it("the leader is killed while a task runs -> the standby leads, and finishes the task once", async () => {
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    const tls = first.certs.files("operator");
    standby = await spawnService({
      name: "standby",
      mainFile: TUNED_MAIN,
      folder: temporaryFolder(),
      config: {
        ...first.config,
        listen: { host: "127.0.0.1", port },
        http: { listen: { host: STANDBY_HOST, port: httpPort }, users },
      },
      health: { address, tls, serverRole: "director" },
      waitFor: "listening",
    });
    const options = { tls, serverRole: "director", defaultDeadlineMs: 60_000 } as const;
    const both = { ...options, address: [first.address, address] };
    const disks = createClient(DynamicDiskServiceDefinition, both);
    const tasks = createClient(TaskServiceDefinition, both);
    const ofStandby = createClient(TaskServiceDefinition, { ...options, address });
    try {
      const [instanceId] = (await first.deploy("web", 1)) as [string];
      const gate = first.cpi.gate("createDisk", "after");
      const { task } = await disks.provideDynamicDisk({
        diskName: "data",
        instanceId,
        diskPoolName: "fast",
        sizeBytes: 1024 * 1024,
      });
      const taskId = task?.taskId ?? 0;
      await gate.reached;
      // The standby can forward the call once it knows the leader.
      await eventually(async () =>
        expect((await ofStandby.getTask({ taskId })).task?.state).to.equal(TaskState.PROCESSING),
      );
      // The HTTPS client knows only the standby's address.
      const http = new HttpClient(first.certs, httpPort, "admin:pw", STANDBY_HOST);
      const deployGate = first.cpi.gate("createVm", "after");
      const deployed = await http.send("POST", "/deployments", { body: manifest("far", 1) });
      expect(deployed.status, deployed.body).to.equal(302);
      const path = deployed.headers.location ?? "";
      await deployGate.reached;
      const body = JSON.stringify({ name: "admin", password: "pw" });
      const { headers: begun } = await http.send("POST", "/page/login", { login: "", body });
      const asSession = { login: "", headers: { cookie: begun["set-cookie"]?.[0]?.split(";", 1)[0] ?? "" } };
      expect((await http.send("GET", "/page/session", asSession)).status).to.equal(200);
      expect((await http.send("POST", "/page/logout", asSession)).status).to.equal(204);
      for (const path of ["/page/session", "/page/self", "/page/docs/README.md"])
        expect((await http.send("GET", path, asSession)).status, `${path} at the standby`).to.equal(401);
      const events = () => http.send("GET", `${path}/output?type=event`, { headers: { range: "bytes=0-" } });
      // Events are written in batches, shortly after they occur.
      const seen = await eventually(async () => {
        const answer = await events();
        expect(answer.status).to.equal(206);
        return answer;
      });
      await first.process.kill();
      const killedMs = performance.now();
      gate.release();
      deployGate.release();
      await tasks.getTask({ taskId });
      const takenMs = Math.round(performance.now() - killedMs);
      console.log(
        `      a call right after SIGKILL was answered after ${takenMs} ms (the lease time is ${LEASE_TIME_MS} ms)`,
      );
      for await (const { update } of tasks.watchTask({ taskId }, { deadlineMs: 60_000 }))
        if (update?.$case === "ended") expect(update.value).to.include({ state: TaskState.DONE, attempts: 2 });
      expect(first.cpi.disks.size).to.equal(1);
      // A dispatcher that seemed unreachable is fenced again, so the list may have more entries.
      const { fences } = first.dispatcher;
      expect(fences.at(-1)).to.be.above(fences[0] as number);
      const isDone = async () =>
        expect(await http.json(path)).to.include({ state: "done", result: "/deployments/far" });
      await eventually(isDone);
      expect((await http.send("GET", "/page/session", asSession)).status, "after the takeover").to.equal(401);
      // Clients continue at the byte up to which they have read, so bytes already served must not change.
      expect((await events()).body.startsWith(seen.body)).to.equal(true);
      expect(seen.body.length).to.be.above(0);
    } finally {
      for (const client of [disks, tasks, ofStandby]) client.close();
    }
  });
});

describe("a director that waits for its database", () => {
  it("has its HTTPS API open, which reports that the director does not serve yet", async () => {
    const held = new Set<Socket>();
    const silent = createServer((socket) => held.add(socket.on("error", () => {}))).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const storage = `mongodb://127.0.0.1:${(silent.address() as AddressInfo).port}/silent?serverSelectionTimeoutMS=100000`;
    const [certs, port, httpPort] = [await testCertificates(), await freePort(), await freePort()];
    const tls = certs.files("director");
    const config = {
      listen: { host: "127.0.0.1", port },
      tls,
      tablet: { storage },
      dispatcher: { address: "127.0.0.1:1" },
      nats: { servers: ["127.0.0.1:1"] },
      http: {
        listen: { host: "127.0.0.1", port: httpPort },
        users: [{ name: "admin", passwordHash: await hashPassword("pw") }],
      },
    };
    const health = { address: `127.0.0.1:${port}`, tls: certs.files("operator"), serverRole: "director" } as const;
    const folder = temporaryFolder();
    const director = await spawnService({
      name: "waiting",
      mainFile: TUNED_MAIN,
      folder,
      config,
      health,
      waitFor: "nothing",
    });
    try {
      const http = new HttpClient(certs, httpPort, "");
      const answered = eventually(() => {
        expect(director.exit, director.logs).to.equal(undefined);
        return http.send("GET", "/healthz");
      });
      expect((await answered).status).to.equal(200);
      expect((await http.send("GET", "/info")).status).to.equal(503);
    } finally {
      await director.kill();
      for (const socket of held) socket.destroy();
      silent.close();
    }
  });
});
