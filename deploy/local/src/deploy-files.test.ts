import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { authCalloutConfig, openCalloutIssuer } from "@diskmesh/mbus";
import { Child, eventually, freePort, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { parse } from "yaml";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const deploy = join(repository, "deploy");
const PKI = "/etc/diskmesh/pki";

interface Schema {
  parse(config: unknown): Config;
}

interface Config {
  readonly listen: { readonly port: number };
  readonly advertisedAddress?: string;
  readonly blockListen?: { readonly port: number };
  readonly health?: { readonly listen: { readonly port: number } };
}

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

/** Config schemas of the services. */
const SCHEMAS: ReadonlyMap<string, Schema> = new Map(
  await Promise.all(
    [
      ["director", "directorConfig"],
      ["cpi-dispatcher", "dispatcherConfig"],
      ["disk-registry", "configSchema"],
      ["disk-agent", "configSchema"],
      ["csi-driver", "csiConfig"],
    ].map(async ([service = "", name = ""]) => {
      const module = await import(`@diskmesh/${service}/config`);
      return [service, module[name]] as const;
    }),
  ),
);

/** Parses a config with the service's own schema. */
function parsedConfig(service: string, file: string): Config {
  const schema = SCHEMAS.get(service);
  if (schema === undefined) throw new Error(`there is no service ${service}`);
  return schema.parse(parse(readFileSync(file, "utf8")));
}

function version(): string {
  return JSON.parse(readFileSync(join(repository, "package.json"), "utf8")).version;
}

async function programs(): Promise<readonly string[]> {
  const { PROGRAMS } = await import(join(repository, "deploy/local/bootstrap/release.mjs"));
  return Object.keys(PROGRAMS);
}

/** Runs the operator's command, with a folder of the test in the place of /etc/diskmesh. */
function diskmesh(...args: string[]): void {
  execFileSync(process.execPath, [join(repository, "packages/cli/bin/diskmesh.mjs"), ...args]);
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

describe("the manifests for Kubernetes", () => {
  const folder = join(deploy, "kubernetes");
  const read = (file: string) => readFileSync(join(folder, file), "utf8");
  const manifest = parse(readFileSync(join(folder, "base/disk-agent.yaml"), "utf8"));
  const pod = manifest.spec.template.spec;
  const [agent] = pod.containers;

  it("start the agent as no root, without a capability, and read-only except where it writes", async () => {
    expect(await programs()).to.include(agent.command[0]);
    const { runAsUser, runAsNonRoot, readOnlyRootFilesystem, capabilities } = agent.securityContext;
    expect([runAsUser > 0, runAsNonRoot, readOnlyRootFilesystem]).to.deep.equal([true, true, true]);
    expect(capabilities).to.deep.equal({ drop: ["ALL"] });
    const user = /^USER (\d+):/m.exec(readFileSync(join(deploy, "container/Containerfile"), "utf8"))?.[1];
    expect(String(runAsUser)).to.equal(user);
  });

  it("match a node's config", async () => {
    const config = parsedConfig("disk-agent", join(folder, "node-disk-agent.yaml"));
    expect(agent.ports).to.deep.equal([
      { name: "grpc", containerPort: config.listen.port },
      { name: "blocks", containerPort: config.blockListen?.port },
    ]);
    for (const [probe, path] of [
      ["readinessProbe", "/readyz"],
      ["livenessProbe", "/healthz"],
    ] as const)
      expect(agent[probe].httpGet).to.deep.equal({ host: "127.0.0.1", port: config.health?.listen.port, path });
    expect(agent.command.slice(1)).to.deep.equal(["--config", "/etc/diskmesh/disk-agent.yaml"]);
    const mounts = new Map(
      agent.volumeMounts.map((mount: { name: string; mountPath: string }) => [mount.name, mount.mountPath]),
    );
    for (const { name, hostPath } of pod.volumes) {
      expect(mounts.has(name), name).to.equal(true);
      // A socket must have the same path in the container as on the node, where other programs use it.
      if (hostPath) expect(hostPath.path).to.equal(mounts.get(name));
    }
  });

  for (const [file, example, mode] of [
    ["controller", "csi-controller.yaml", "controller"],
    ["node", "node-csi-driver.yaml", "node"],
  ] as const)
    it(`start the CSI driver's ${mode} with a config that it takes, and probe it where it answers`, async () => {
      const { containers, volumes } = parse(read(`csi/${file}.yaml`), { merge: true }).spec.template.spec;
      const [driver, ...sidecars] = containers;
      expect(await programs()).to.include(driver.command[0]);
      expect(driver.command.slice(1)).to.deep.equal([`--${mode}`, "--config", "/etc/diskmesh/csi-driver.yaml"]);
      const config = parsedConfig("csi-driver", join(folder, example));
      expect(config).to.have.property(mode);
      for (const probe of ["readinessProbe", "livenessProbe"])
        expect(driver[probe].httpGet.port).to.equal(config.health?.listen.port);
      const known = volumes.map(({ name }: { name: string }) => name);
      for (const { volumeMounts } of containers) for (const { name } of volumeMounts) expect(known).to.include(name);
      expect(driver.env).to.deep.equal([{ name: "CSI_ENDPOINT", value: "unix:///csi/csi.sock" }]);
      for (const { args } of sidecars) expect(args[0]).to.equal("--csi-address=/csi/csi.sock");
    });

  const kinds = {
    base: ["Namespace", "DaemonSet"],
    "block-devices": ["Namespace", "DaemonSet"],
    csi: [
      ...["CSIDriver", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
      ...["Deployment", "DaemonSet", "StorageClass", "VolumeAttributesClass"],
    ],
  };
  for (const [variant, wanted] of Object.entries(kinds))
    it(`${variant} is built by kubectl kustomize`, function () {
      if (spawnSync("kubectl", ["version", "--client"]).error) skipBecause(this, "kubectl is not on PATH");
      const home = temporaryFolder();
      mkdirSync(join(home, ".kube"));
      const { status, stdout, stderr } = spawnSync("kubectl", ["kustomize", join(folder, variant)], {
        encoding: "utf8",
        env: { ...process.env, HOME: home },
      });
      expect(status, stderr).to.equal(0);
      expect(stdout.match(/^kind: .*$/gm)).to.have.members(wanted.map((kind) => `kind: ${kind}`));
      expect(stdout).to.include(`image: diskmesh:${version()}\n`);
      expect(stdout.includes("privileged: true\n")).to.equal(variant !== "base");
      expect(stdout).not.to.include("allowPrivilegeEscalation: null");
    });
});
