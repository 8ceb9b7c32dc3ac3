import { execFile } from "node:child_process";
import { createHash, X509Certificate } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:https";
import { join } from "node:path";
import { promisify } from "node:util";
import { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import { DiskRegistryServiceDefinition, HostState, JoinTokenServiceDefinition } from "@diskmesh/api/registry";
import { InvalidArgumentError, NotFoundError, PermissionDeniedError, ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createAuthority, createHostAuthority, hostRequest, issueCertificate } from "@diskmesh/pki";
import { type Client, createClient, type ServiceDefinition, type TlsFiles } from "@diskmesh/rpc";
import {
  Child,
  eventually,
  freePort,
  ServiceProcess,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { expect } from "chai";
import { TestMesh } from "./mesh/test-mesh.js";
import { ended } from "./mesh/typed-lines.js";
import { repositoryFolder } from "./repository-folder.js";

const DEVICE_BYTES = 1024 * 1024;
const mainOf = (service: string) => join(repositoryFolder, `services/${service}/dist/main.js`);

describe("a machine that joins by a token", () => {
  const folder = temporaryFolder();
  const stops: (() => unknown)[] = [];
  let mesh: TestMesh;
  let certificates: TestCertificates;
  let address: string;
  let joinPort: number;
  let usedToken: string;
  let service: ServiceProcess;
  let tokens: Client<typeof JoinTokenServiceDefinition>;
  let registry: Client<typeof DiskRegistryServiceDefinition>;

  function client<Definition extends ServiceDefinition>(definition: Definition, tls: TlsFiles) {
    const made = createClient(definition, { address, tls, serverRole: "disk-registry", defaultDeadlineMs: 60_000 });
    stops.push(() => made.close());
    return made;
  }

  before(async () => {
    certificates = await testCertificates();
    const read = (name: string) => readFileSync(join(certificates.folder, name), "utf8");
    const made = await createHostAuthority({ certPem: read("ca.pem"), keyPem: read("ca-key.pem") });
    const authority = { certFile: join(folder, "hosts-ca.pem"), keyFile: join(folder, "hosts-ca-key.pem") };
    writeFileSync(authority.certFile, made.certPem);
    writeFileSync(authority.keyFile, made.keyPem, { mode: 0o600 });
    mesh = await TestMesh.start({
      processes: [
        { service: "disk-registry", config: (placed) => ({ join: { listen: placed.listen("join"), authority } }) },
      ],
      listeners: ["join"],
      certificates,
      deadlineMs: 60_000,
    });
    service = mesh.process("disk-registry");
    address = mesh.address("disk-registry");
    joinPort = mesh.listen("join").port;
    tokens = mesh.client(JoinTokenServiceDefinition, "disk-registry");
    ({ registry } = mesh.clients);
  });
  afterEach(() => expect(service.exit, service.logs.slice(-2_000)).to.equal(undefined));
  after(async () => {
    for (const stop of stops.reverse()) await stop();
    await mesh?.[Symbol.asyncDispose]();
  });

  const ttl = { seconds: 3_600, nanos: 0 };
  const newToken = async (hosts = "", uses = 1) => (await tokens.createJoinToken({ ttl, hosts, uses })).token;
  const filesOf = (hostId: string) => ({
    caFile: join(folder, hostId, "tls/ca.pem"),
    certFile: join(folder, hostId, "tls/cert.pem"),
    keyFile: join(folder, hostId, "tls/key.pem"),
  });

  async function agent(hostId: string, token: string, joinAddress = `127.0.0.1:${joinPort}`): Promise<ServiceProcess> {
    const port = await freePort();
    const own = temporaryFolder();
    const [tokenFile, path] = [join(own, "token"), join(own, "drive")];
    writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
    writeFileSync(path, Buffer.alloc(DEVICE_BYTES));
    const process = new ServiceProcess({
      name: hostId,
      mainFile: mainOf("disk-agent"),
      folder: own,
      config: {
        hostId,
        az: "z1",
        listen: { host: "127.0.0.1", port },
        tls: filesOf(hostId),
        join: { address: joinAddress, tokenFile },
        registry: { address },
        baseFolder: join(own, "base"),
        devices: [{ deviceId: `${hostId}-d1`, path }],
        engine: "node",
      },
      health: { address: `127.0.0.1:${port}`, tls: certificates.files("operator"), serverRole: "disk-agent" },
      waitFor: "nothing",
    });
    stops.push(() => process.kill());
    await process.start();
    return process;
  }

  it("gets a certificate, registers, and is added with its drives; its certificate is renewed for itself alone", async () => {
    usedToken = await newToken("rack7-*");
    await agent("rack7-1", usedToken);
    await eventually(async () =>
      (await registry.listHosts({})).hosts.some(
        ({ hostId, state }) => hostId === "rack7-1" && state === HostState.ONLINE,
      ),
    );
    await eventually(async () => {
      const { devices } = await registry.listDevices({ hostId: "rack7-1" });
      return devices.length === 1 && devices[0]?.attachState === "ATTACH_STATE_ATTACHED";
    });
    const [listed] = (await tokens.listJoinTokens({})).joinTokens;
    expect(listed).to.deep.include({ usesLeft: 0, state: "JOIN_TOKEN_STATE_USED_UP", awaitedHostIds: [] });
    const keyPem = readFileSync(filesOf("rack7-1").keyFile, "utf8");
    const renewing = client(AgentRegistrationServiceDefinition, filesOf("rack7-1"));
    const renew = async (hostId: string, subject = hostId) =>
      renewing.renewCertificate({ hostId, signingRequest: await hostRequest(subject as never, keyPem) });
    expect((await renew("rack7-1")).certificate).to.match(/^-----BEGIN CERTIFICATE-----/);
    await rejection(() => renew("rack7-1"), ResourceExhaustedError, "within the last day");
    await rejection(() => renew("rack7-2"), PermissionDeniedError);
    await rejection(() => renew("rack7-1", "rack7-2"), InvalidArgumentError);
    for (const hostId of ["", "a b", "../x"])
      await rejection(() => renewing.renewCertificate({ hostId, signingRequest: "" }), InvalidArgumentError, "host_id");
    for (const signingRequest of ["", "-----BEGIN CERTIFICATE REQUEST-----", "x".repeat(5_000)])
      await rejection(
        () => renewing.renewCertificate({ hostId: "rack7-1", signingRequest }),
        InvalidArgumentError,
        "the signing request is refused",
      );
    const { events } = await registry.listFleetEvents({ hostId: "rack7-1" });
    const [first, renewed] = ["JoinHost", "RenewCertificate"].map((action) =>
      events.find((each) => each.action === action),
    );
    const { serialNumber } = new X509Certificate(readFileSync(filesOf("rack7-1").certFile));
    expect(first).to.deep.include({ user: `join-token ${listed?.tokenId}`, answer: "OK" });
    expect(first?.message).to.contain(serialNumber);
    expect(renewed?.user).to.equal("disk-agent rack7-1");
    const { host } = await registry.getHost({ hostId: "rack7-1" });
    expect(host?.certificateSerialNumbers).to.have.lengthOf(2).and.include(serialNumber);
    for (const name of ["director", "cpi-dispatcher"])
      await rejection(
        () => client(JoinTokenServiceDefinition, certificates.files(name)).createJoinToken({ ttl, hosts: "", uses: 1 }),
        PermissionDeniedError,
      );
    await rejection(
      () => client(DiskRegistryServiceDefinition, filesOf("rack7-1")).listHosts({}),
      PermissionDeniedError,
    );
  });

  const refusedAgent = async (hostId: string, token: string, joinAddress?: string): Promise<string> => {
    const process = await agent(hostId, token, joinAddress);
    await eventually(() => process.exit !== undefined);
    expect(existsSync(filesOf(hostId).certFile), "a certificate").to.equal(false);
    return process.logs;
  };

  it("is refused after the token's last use, for another name, for a name that exists, and once it is revoked", async () => {
    const token = await newToken("rack7-*", 1);
    expect(await refusedAgent("rack8-1", token)).to.contain("is for hosts rack7-*, not for rack8-1");
    expect(await refusedAgent("rack7-2", usedToken)).to.contain("has been used 1 times");
    const [, ofToken, secret] = token.split(".");
    const signing = await hostRequest("rack7-1" as never, readFileSync(filesOf("rack7-1").keyFile, "utf8"));
    const exists = { tokenId: ofToken, secret, hostId: "rack7-1", request: signing };
    const { status, text } = await send({ body: JSON.stringify(exists) });
    expect([status, text]).to.satisfy(() => status === 403 && text.includes("host rack7-1 exists"));
    const [, tokenId = ""] = token.split(".");
    await tokens.revokeJoinToken({ tokenId });
    expect(await refusedAgent("rack7-3", token)).to.contain("knows no such join token");
    await rejection(() => tokens.revokeJoinToken({ tokenId }), NotFoundError);
  });

  it("sends its token to no server of another authority", async () => {
    const token = await newToken("*");
    const other = await createAuthority({ commonName: "diskmesh development CA", validDays: 1 });
    const { certPem, keyPem } = await issueCertificate(other, {
      identity: { role: "disk-registry", name: "" },
      commonName: "disk-registry",
      dnsNames: [],
      ipAddresses: ["127.0.0.1"],
      validDays: 1,
      usages: ["server"],
    });
    const received: string[] = [];
    const forged = createServer({ cert: certPem + other.certPem, key: keyPem }, ({ url = "" }) => received.push(url));
    const port = await freePort();
    await new Promise<void>((resolve) => forged.listen(port, "127.0.0.1", resolve));
    stops.push(() => forged.close());
    expect(await refusedAgent("rack9-1", token, `127.0.0.1:${port}`)).to.contain("the token was not sent to it");
    expect(received).to.deep.equal([]);
  });

  interface Sent {
    readonly method?: string;
    readonly path?: string;
    readonly body?: string;
  }

  const send = ({ method = "POST", path = "/v1/join", body = "" }: Sent) =>
    new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      const ca = readFileSync(join(certificates.folder, "ca.pem"));
      const sent = request({ host: "127.0.0.1", port: joinPort, ca, method, path, agent: false }, (response) => {
        let text = "";
        response.on("data", (chunk: Buffer) => {
          text += String(chunk);
        });
        response.on("end", () => resolve({ status: response.statusCode, text }));
      });
      sent.on("error", reject);
      sent.end(body);
    });

  it("asks a server that answers nothing else, and refuses what is malformed", async () => {
    const others: readonly Sent[] = [
      { method: "GET" },
      { path: "/" },
      { path: "/v1/join/../x" },
      { path: "/diskmesh.registry.v1.DiskRegistryService/ListHosts" },
    ];
    for (const other of others) expect((await send(other)).status, JSON.stringify(other)).to.equal(404);
    const [, tokenId, secret] = (await newToken()).split(".");
    const good = {
      tokenId,
      secret,
      hostId: "h1",
      request: await hostRequest("h1" as never, readFileSync(join(certificates.folder, "operator-key.pem"), "utf8")),
    };
    const bad: readonly (readonly [string, unknown, string])[] = [
      ["no JSON", "{", "not JSON"],
      ["a list", [], "JSON object"],
      ["a long body", "x".repeat(9_000), "longer than 8192 bytes"],
      ["no secret", { ...good, secret: undefined }, "secret must be text"],
      ["a secret that is a number", { ...good, secret: 1 }, "secret must be text"],
      ["a secret that is wrong", { ...good, secret: "x" }, "knows no such join token"],
      ["a token id that is a path", { ...good, tokenId: "../x" }, "tokenId"],
      ["a token id that is empty", { ...good, tokenId: "" }, "tokenId is empty"],
      ["another token id", { ...good, tokenId: "0123456789ab" }, "knows no such join token"],
      ["a host id with a line", { ...good, hostId: "a\\nb c" }, "hostId"],
      ["a host id that is a path", { ...good, hostId: "../../etc" }, "hostId"],
      ["a host id that is long", { ...good, hostId: "x".repeat(65) }, "longer than 64"],
      ["a request for another host", { ...good, hostId: "h2" }, "CN=h2"],
      ["no request", { ...good, request: "" }, "cannot be read"],
      ["a request that is long", { ...good, request: "x".repeat(5_000) }, "longer than 4096"],
    ];
    for (const [what, body, says] of bad) {
      const { status, text } = await send({ body: typeof body === "string" ? body : JSON.stringify(body) });
      expect([400, 403], what).to.include(status);
      expect(text, what).to.contain(says);
    }
    expect((await send({ body: JSON.stringify(good) })).status).to.equal(200);
  });

  it("needs a token of which each limit is well formed", async () => {
    const good = { ttl, hosts: "", uses: 1 };
    const bad: readonly (readonly [string, object])[] = [
      ["ttl", { ttl: undefined }],
      ["ttl", { ttl: { seconds: 59, nanos: 0 } }],
      ["ttl", { ttl: { seconds: 3_000_000, nanos: 0 } }],
      ["ttl", { ttl: { seconds: 60, nanos: 1 } }],
      ["hosts", { hosts: "a b" }],
      ["hosts", { hosts: "../*" }],
      ["hosts", { hosts: "x".repeat(65) }],
      ["uses", { uses: 0 }],
      ["uses", { uses: -1 }],
      ["uses", { uses: 10_001 }],
    ];
    for (const [field, change] of bad)
      expect(
        (await rejection(() => tokens.createJoinToken({ ...good, ...change }), InvalidArgumentError)).message,
      ).to.contain(field);
    for (const tokenId of ["", "a b", "../x"])
      expect((await rejection(() => tokens.revokeJoinToken({ tokenId }), InvalidArgumentError)).message).to.contain(
        "token_id",
      );
  });

  it("joins by one command, whose config its agent starts with", async () => {
    const own = temporaryFolder();
    writeFileSync(join(own, "drive-1"), Buffer.alloc(DEVICE_BYTES));
    const port = await freePort();
    const options = ["--host-id", "one-1", "--listen", `127.0.0.1:${port}`, "--drives", join(own, "drive-*")];
    const args = [
      mainOf("disk-agent"),
      "join",
      `127.0.0.1:${joinPort}`,
      "-",
      ...options,
      "--folder",
      join(own, "agent"),
    ];
    const run = promisify(execFile)(process.execPath, args);
    run.child.stdin?.end(`${await newToken("one-*")}\n`);
    const file = join(own, "agent/disk-agent.yaml");
    expect((await run).stdout).to.contain(
      `its config is ${file}\nstart its agent: diskmesh-disk-agent --config ${file}`,
    );
    const started = new Child({
      name: "one-1",
      command: process.execPath,
      args: [mainOf("disk-agent"), "--config", file],
      logFile: join(own, "log"),
    });
    stops.push(async () => {
      if (started.exit !== undefined) return;
      started.signal("SIGKILL");
      await started.exited;
    });
    await eventually(async () => {
      const { devices } = await registry.listDevices({ hostId: "one-1" });
      expect(
        devices.map((each) => each.attachState),
        started.output,
      ).to.deep.equal(["ATTACH_STATE_ATTACHED"]);
    });
    const again = await promisify(execFile)(process.execPath, args).catch(
      (error: { stderr: string; code: number }) => error,
    );
    expect(again.stderr).to.contain("this host has joined");
  });

  const typed = (...args: string[]) => mesh.typed("join-token", ...args);

  it("has a token of `diskmesh join-token`, which lists and revokes it", async () => {
    const created = await typed("create", "--ttl", "90m", "--hosts", "rack9-*", "--uses", "3");
    expect(created.out, created.err).to.match(/^dmj1\.[0-9a-f]{12}\.[\w-]{43}\.[0-9a-f]{64}\n$/);
    const tokenId = created.out.split(".")[1] as string;
    const { out } = await typed("list");
    expect(out).to.match(new RegExp(`${tokenId} +VALID +rack9-\\* +0/3 .* operator`));
    const found = (await tokens.listJoinTokens({})).joinTokens.find((each) => each.tokenId === tokenId);
    const lastsMs = (found?.expireTime?.getTime() ?? 0) - (found?.createTime?.getTime() ?? 0);
    expect(lastsMs).to.equal(90 * 60_000);
    expect((await typed("revoke", tokenId)).out).to.contain(`revoked ${tokenId}`);
    expect((await typed("list")).out).not.to.contain(tokenId);
    const { joinToken } = JSON.parse((await typed("create", "--json")).out) as { joinToken: object };
    expect(joinToken).to.deep.include({ hosts: "*", uses: 1 });
    const wrong: readonly (readonly [string, RegExp])[] = [
      ["", /join-token.*<verb>|missing/],
      ["renew", /"renew" is none of create, list, revoke/],
      ["create --ttl 1", /--ttl "1" is malformed/],
      ["create --ttl 0h", /--ttl "0h" is malformed/],
      ["create --ttl 31d", /ttl is 2678400/],
      ["create --uses 0", /uses/],
      ["create --uses many", /--uses "many"/],
      ["create --uses 10001", /--uses/],
      ["create --hosts ../*", /hosts .* is malformed/],
      ["create --hosts a,b", /hosts .* is malformed/],
      [`create --hosts ${"x".repeat(65)}`, /hosts .* is malformed/],
      ["create rack7-1", /takes no token ids/],
      ["list rack7-1", /takes no token ids/],
      ["revoke", /no token is given/],
      ["revoke ../x", /token_id/],
      ["revoke 0123456789ab", /no join token 0123456789ab/],
    ];
    for (const [line, says] of wrong) {
      const { code, out: printed, err } = await typed(...line.split(" ").filter(Boolean));
      expect(code, line).not.to.equal(0);
      expect(printed + err, line).to.match(says);
    }
  });

  it("cannot join at a registry whose authority could sign for others, which does not start", async () => {
    const process = new ServiceProcess({
      name: "wrong-registry",
      mainFile: mainOf("disk-registry"),
      folder: temporaryFolder(),
      config: {
        ...service.config,
        listen: { host: "127.0.0.1", port: await freePort() },
        tablet: { storage: join(temporaryFolder(), "state") },
        join: {
          listen: { host: "127.0.0.1", port: await freePort() },
          authority: {
            certFile: join(certificates.folder, "ca.pem"),
            keyFile: join(certificates.folder, "ca-key.pem"),
          },
        },
      },
      health: { address, tls: certificates.files("operator"), serverRole: "disk-registry" },
      waitFor: "nothing",
    });
    stops.push(() => process.kill());
    await process.start();
    await eventually(() => process.exit !== undefined);
    expect(process.logs).to.contain("not an authority that may sign for joined hosts alone");
  });

  it("leaves no token in state, logs and lists, where the registry keeps its hash", async () => {
    const token = await newToken();
    const [, tokenId, secret = ""] = token.split(".");
    const files = readdirSync(mesh.dataFolder("disk-registry"), { recursive: true, withFileTypes: true }).filter(
      (each) => each.isFile(),
    );
    const state = files.map((each) => readFileSync(join(each.parentPath, each.name), "latin1")).join("");
    const list = JSON.stringify(await tokens.listJoinTokens({}));
    for (const place of [state, list]) expect(place).to.contain(tokenId);
    expect(state).to.contain(createHash("sha256").update(secret).digest("hex"));
    for (const each of [secret, usedToken.split(".")[2] as string])
      for (const place of [state, service.logs, list]) expect(place).not.to.contain(each);
  });

  it("is refused with a token of before a restore", async () => {
    const [, tokenId, secret] = (await newToken("", 2)).split(".");
    const backup = join(folder, "registry.backup");
    await ended(mesh, `backup registry ${backup}`, 0);
    await service.stop();
    const file = join(folder, "restore.json");
    writeFileSync(file, JSON.stringify(service.config));
    const restored = ["--config", file, "--from", backup, "--replace"];
    await promisify(execFile)(process.execPath, [
      join(repositoryFolder, "services/disk-registry/dist/restore.js"),
      ...restored,
    ]);
    await service.start();
    const keyPem = readFileSync(join(certificates.folder, "operator-key.pem"), "utf8");
    const body = { tokenId, secret, hostId: "late-1", request: await hostRequest("late-1" as never, keyPem) };
    const { status, text } = await send({ body: JSON.stringify(body) });
    expect(status, text).to.equal(403);
    expect(text).to.contain(`join token ${tokenId} was ended by the restore of a backup`);
    const listed = (await tokens.listJoinTokens({})).joinTokens.find((each) => each.tokenId === tokenId);
    expect(listed?.state).to.equal("JOIN_TOKEN_STATE_RESTORED");
  });
});
