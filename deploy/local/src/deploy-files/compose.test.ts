import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { authCalloutConfig, openCalloutIssuer } from "@diskmesh/mbus";
import { Child, eventually, freePort, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { parse } from "yaml";
import { deploy, diskmesh, parsedConfig, programs, SCHEMAS, version } from "./testing/release-facts.js";

const PKI = "/etc/diskmesh/pki";

interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly volumes?: readonly string[];
  readonly networks?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, unknown>> | readonly string[];
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly networks: Readonly<Record<string, unknown>>;
}

describe("the container image", () => {
  const text = readFileSync(join(deploy, "container/Containerfile"), "utf8");

  it("is built from a release, on a base of a fixed version, and its user is not root", () => {
    expect(text).to.match(/^FROM \S+\/node:(?:2[2-9]|[3-9]\d)-\S+$/m);
    expect(text).to.match(/^ADD diskmesh-\$\{VERSION\}\.tar\.gz \/opt\/$/m);
    expect(text).to.match(/^USER [1-9]\d*:[1-9]\d*$/m);
    expect(text).to.include("ENV PATH=/opt/diskmesh/bin:$PATH\n");
    expect(text).to.include(`--build-arg VERSION=${version()} `);
    expect(readFileSync(join(deploy, "README.md"), "utf8")).to.include(`--tag diskmesh:${version()} .cache/release\n`);
  });
});

describe("the compose file", () => {
  const folder = join(deploy, "compose");
  const text = readFileSync(join(folder, "compose.yaml"), "utf8");
  const compose: Compose = parse(text, { merge: true });
  const services = Object.entries(compose.services);
  const kindOf = (name: string) => [...SCHEMAS.keys()].find((kind) => name.startsWith(`${kind}-`));
  const ours = services.filter(([name]) => kindOf(name) !== undefined);
  /** Returns the source of a service's mount at a path, or undefined. */
  const mountedAt = ({ volumes = [] }: Service, path: string) =>
    volumes.map((volume) => volume.split(":")).find(([, to]) => to === path)?.[0];

  it("has three of NATS and of MongoDB, two of each service, and agents", () => {
    const counts = new Map<string, number>();
    for (const [name] of services)
      counts.set(name.replace(/-\d$/, ""), (counts.get(name.replace(/-\d$/, "")) ?? 0) + 1);
    const wanted = { nats: 3, mongo: 3, director: 2, "cpi-dispatcher": 2, "disk-registry": 2, "disk-agent": 3 };
    for (const [name, count] of Object.entries(wanted)) expect(counts.get(name), name).to.equal(count);
  });

  it("names only existing services, volumes, networks, files and programs", async () => {
    const known = [...(await programs()), "sh"];
    for (const [name, service] of services) {
      for (const other of Array.isArray(service.depends_on)
        ? service.depends_on
        : Object.keys(service.depends_on ?? {}))
        expect(compose.services, name).to.have.property(other);
      for (const network of service.networks ?? []) expect(compose.networks, name).to.have.property(network);
      for (const volume of service.volumes ?? []) {
        const [from = "", to = ""] = volume.split(":");
        expect(to, `${name}: ${volume}`).to.match(/^\//);
        if (from.startsWith("./")) expect(existsSync(join(folder, from)), `${name}: ${from}`).to.equal(true);
        else expect(compose.volumes, name).to.have.property(from);
      }
      if (service.image.startsWith("diskmesh:")) {
        expect(service.image).to.equal(`diskmesh:\${DISKMESH_VERSION:-${version()}}`);
        expect(known, name).to.include([...(service.entrypoint ?? []), ...(service.command ?? [])][0]);
      }
    }
    for (const volume of Object.keys(compose.volumes))
      expect(
        services.some(([, { volumes = [] }]) => volumes.some((one) => one.startsWith(`${volume}:`))),
        volume,
      ).to.equal(true);
  });

  it("gives each service a valid config, with addresses where others listen", async () => {
    const ports = new Map<string, number>();
    const texts: string[] = [];
    for (const [name, service] of ours) {
      const kind = kindOf(name) ?? "";
      const file = join(folder, mountedAt(service, `/etc/diskmesh/${kind}.yaml`) ?? "missing");
      expect(service.command, name).to.deep.equal([`diskmesh-${kind}`, "--config", `/etc/diskmesh/${kind}.yaml`]);
      const { listen, advertisedAddress } = parsedConfig(kind, file);
      ports.set(name, listen.port);
      if (kind !== "cpi-dispatcher") expect(advertisedAddress).to.equal(`${name}:${listen.port}`);
      texts.push(readFileSync(file, "utf8"));
    }
    for (const n of [1, 2, 3]) ports.set(`nats-${n}`, 4222);
    expect(readdirSync(join(folder, "config")).length).to.equal(new Set(texts).size);
    const operator = JSON.stringify(compose.services.diskmesh?.environment);
    const addresses = [...`${texts.join()}${operator}`.matchAll(/[\s",[]([a-z-]+-\d):(\d+)/g)];
    expect(addresses).to.have.lengthOf.above(20);
    for (const [, name = "", port] of addresses) expect(`${name}:${port}`).to.equal(`${name}:${ports.get(name)}`);
    for (const [, names = ""] of texts.join().matchAll(/mongodb:\/\/([^/]+)\//g))
      for (const name of names.split(",")) expect(compose.services).to.have.property(name);
  });

  it("keeps written data in volumes, and shows the dispatchers the directors' stemcells", async () => {
    for (const [name, service] of ours) {
      const file = mountedAt(service, `/etc/diskmesh/${kindOf(name)}.yaml`) ?? "";
      const folders = readFileSync(join(folder, file), "utf8").matchAll(/(?:Folder|folder|glob): "?(\/var[^\s"*}]*)/g);
      for (const [, path = ""] of folders) {
        const mounts = (service.volumes ?? []).map((volume) => volume.split(":")[1] ?? "");
        expect(
          mounts.some((mount) => `${path}/`.startsWith(`${mount}/`)),
          `${name} ${path}`,
        ).to.equal(true);
      }
      if (/director|dispatcher/.test(name))
        expect(mountedAt(service, "/var/lib/diskmesh/stemcells")).to.equal("stemcells");
    }
  });

  describe("once its certificates are made, as its commands make them", () => {
    let made: string;

    before(() => {
      made = temporaryFolder();
      const list = join(made, "mesh.list");
      // The addresses are of this machine, because the test also starts the NATS cluster here.
      const text = readFileSync(join(folder, "mesh.list"), "utf8").replace(/^nats\/.*$/gm, "$& 127.0.0.1");
      writeFileSync(list, text);
      const [, , verb = "", ...pki] = compose.services.pki?.command ?? [];
      const inTest = (arg: string) => arg.replace(/^\/etc\/diskmesh/, made);
      diskmesh("pki", verb, ...pki.map(inTest));
      const [, command = "", ...nats] = compose.services["nats-users"]?.command ?? [];
      diskmesh(command, ...nats.map(inTest));
    });

    it("has each file of a certificate that is named", () => {
      const named = [
        text,
        ...readdirSync(join(folder, "config")).map((name) => readFileSync(join(folder, "config", name), "utf8")),
      ];
      const files = new Set([...named.join().matchAll(/\/etc\/diskmesh\/pki\/[\w.-]+\.pem/g)].map(([file]) => file));
      expect(files.size).to.equal(1 + 2 * (3 + 3 + 3 + 1));
      for (const file of files) expect(existsSync(file.replace(PKI, join(made, "pki"))), file).to.equal(true);
    });

    /** Starts one of the three nats-servers; `change` edits its configuration, e.g. the listen address. */
    function natsServer(name: string, change = (text: string) => text) {
      const config = join(made, `${name}.conf`);
      writeFileSync(config, change(readFileSync(join(folder, "nats.conf"), "utf8").replaceAll("/etc/diskmesh", made)));
      const environment = Object.entries(compose.services[name]?.environment ?? {});
      const env = Object.fromEntries(environment.map(([key, value]) => [key, value.replace("/etc/diskmesh", made)]));
      return { config, env };
    }

    const skipWithoutServer = (test: Mocha.Context) => {
      if (spawnSync("nats-server", ["--version"]).error) skipBecause(test, "nats-server is not on PATH");
    };

    it("has directors that sign with the key that nats-server trusts", async () => {
      const issuer = await openCalloutIssuer(join(made, "pki/nats-issuer.seed"), { makes: false });
      const auth = readFileSync(join(made, "nats/auth-callout.conf"), "utf8");
      expect(auth).to.equal(authCalloutConfig(issuer.getPublicKey()));
      const example = readFileSync(join(deploy, "nats/auth-callout.conf"), "utf8");
      expect(example.replace(/^#.*\n/gm, "").replace(/issuer: "A\w+"/, `issuer: "${issuer.getPublicKey()}"`)).to.equal(
        auth,
      );
    });

    for (const name of ["nats-1", "nats-2", "nats-3"])
      it(`has a configuration for ${name} that nats-server accepts`, function () {
        skipWithoutServer(this);
        const { config, env } = natsServer(name);
        const { status, stderr } = spawnSync("nats-server", ["--config", config, "-t"], {
          env: { ...process.env, ...env },
          encoding: "utf8",
        });
        expect(status, stderr).to.equal(0);
      });

    it("has NATS servers in a cluster that admits no other certificate of the mesh", async function () {
      skipWithoutServer(this);
      const port = await freePort(6);
      const onLoopback = (index: number) => (text: string) =>
        text
          .replace("0.0.0.0:4222", `127.0.0.1:${port + index}`)
          .replace("0.0.0.0:6222", `127.0.0.1:${port + 3 + index}`)
          .replace(/nats-([12]):6222/g, (_, number) => `127.0.0.1:${port + 2 + Number(number)}`)
          // A test must not connect to the example's address of the third server.
          .replace(/, "[^"]*nats-3:6222"/, "");
      const run = (name: string, { config, env }: ReturnType<typeof natsServer>) =>
        new Child({ name, command: "nats-server", args: ["-c", config], env, logFile: join(made, `${name}.log`) });
      const own = natsServer("nats-3", (text) =>
        onLoopback(2)(text).replace('include "nats/cluster-tls.conf"', `ca_file: "${join(made, "pki/ca.pem")}"`),
      );
      const [certFile, keyFile] = ["director.pem", "director-key.pem"].map((name) => join(made, "pki", name));
      const env = { SERVER_NAME: "stranger", CERT_FILE: certFile ?? "", KEY_FILE: keyFile ?? "" };
      const members = ["nats-1", "nats-2"].map((name, index) => run(name, natsServer(name, onLoopback(index))));
      const stranger = run("stranger", { ...own, env });
      try {
        // Each server also connects to itself as a route.
        const joined = new RegExp(`127\\.0\\.0\\.1:${port + 4} - rid:\\d+ - Route connection created`);
        await eventually(() => expect(members[0]?.output).to.match(joined));
        for (const member of members)
          await eventually(() => expect(member.output).to.contain("handshake error: certificate not pinned"));
        expect(stranger.exit).to.equal(undefined);
      } finally {
        for (const child of [...members, stranger]) child.signal("SIGKILL");
        await Promise.all([...members, stranger].map(({ exited }) => exited));
      }
    });
  });

  it("is one to docker compose", function () {
    if (spawnSync("docker", ["compose", "version"]).status !== 0) skipBecause(this, "docker compose is not installed");
    const args = ["compose", "--file", join(folder, "compose.yaml"), "--profile", "operator", "config", "--quiet"];
    const { status, stderr } = spawnSync("docker", args, { encoding: "utf8" });
    expect([status, stderr]).to.deep.equal([0, ""]);
  });
});
