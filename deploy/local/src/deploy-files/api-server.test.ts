import { execFileSync, spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Child, eventually, freePort, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { parse } from "yaml";
import type { KubernetesObject } from "./testing/helm.js";
import { deploy, repository } from "./testing/release-facts.js";

const PROGRAMS = ["etcd", "kube-apiserver", "kubectl", "helm"];
const START_TIMEOUT_MS = 120_000;
const TOKEN = "admin-token";

/** An API server of Kubernetes with its etcd, and nothing that would run pods. */
class ApiServer {
  readonly #folder = temporaryFolder();
  readonly #children: Child[] = [];
  readonly kubeconfig = join(this.#folder, "kubeconfig");

  async start(): Promise<void> {
    const port = await freePort(3);
    const url = (offset: number) => `http://127.0.0.1:${port + offset}`;
    const file = (name: string) => join(this.#folder, name);
    this.#run("etcd", [
      ...["--data-dir", file("etcd"), "--listen-client-urls", url(0), "--advertise-client-urls", url(0)],
      ...[
        "--listen-peer-urls",
        url(1),
        "--initial-advertise-peer-urls",
        url(1),
        "--initial-cluster",
        `default=${url(1)}`,
      ],
    ]);
    const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    writeFileSync(file("accounts.key"), privateKey.export({ type: "pkcs8", format: "pem" }));
    writeFileSync(file("accounts.pub"), publicKey.export({ type: "spki", format: "pem" }));
    writeFileSync(file("tokens.csv"), `${TOKEN},admin,admin,system:masters\n`);
    this.#run("kube-apiserver", [
      ...[`--etcd-servers=${url(0)}`, "--bind-address=127.0.0.1", `--secure-port=${port + 2}`],
      ...[`--cert-dir=${file("certs")}`, `--token-auth-file=${file("tokens.csv")}`, "--authorization-mode=RBAC"],
      ...["--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc"],
      ...[`--service-account-signing-key-file=${file("accounts.key")}`],
      ...[`--service-account-key-file=${file("accounts.pub")}`],
      // Installers of clusters set it, too.
      "--allow-privileged",
      // Nothing here makes the accounts that this plugin asks for.
      "--disable-admission-plugins=ServiceAccount",
    ]);
    const cluster = { server: `https://127.0.0.1:${port + 2}`, "insecure-skip-tls-verify": true };
    const config = {
      ...{
        apiVersion: "v1",
        kind: "Config",
        "current-context": "test",
        users: [{ name: "test", user: { token: TOKEN } }],
      },
      clusters: [{ name: "test", cluster }],
      contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
    };
    writeFileSync(this.kubeconfig, JSON.stringify(config));
    await eventually(() => expect(this.kubectl("get", "--raw", "/readyz")).to.equal("ok"), {
      timeoutMs: START_TIMEOUT_MS,
    });
  }

  kubectl(...args: string[]): string {
    return execFileSync("kubectl", args, { env: this.env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /** Creates an object, or sends another request with a body. */
  post(body: object, args: readonly string[] = ["create", "--filename", "-"]): void {
    execFileSync("kubectl", args, { env: this.env, input: JSON.stringify(body), stdio: ["pipe", "pipe", "pipe"] });
  }

  get env(): NodeJS.ProcessEnv {
    return { ...process.env, KUBECONFIG: this.kubeconfig, HOME: this.#folder };
  }

  #run(command: string, args: string[]): void {
    this.#children.push(new Child({ name: command, command, args, logFile: join(this.#folder, `${command}.log`) }));
  }

  async stop(): Promise<void> {
    for (const child of this.#children) child.signal("SIGKILL");
    await Promise.all(this.#children.map(({ exited }) => exited));
  }
}

/** Returns the blocks of docs/guides/kubernetes.md in a language. */
function blocksOf(language: string): readonly string[] {
  const text = readFileSync(join(repository, "docs/guides/kubernetes.md"), "utf8");
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, of, block = ""]) =>
    of === language ? [block] : [],
  );
}

describe("the Helm chart on an API server", () => {
  const server = new ApiServer();
  let workloads: readonly KubernetesObject[];

  before(async function () {
    for (const program of PROGRAMS)
      if (spawnSync(program, ["--help"]).error) skipBecause(this, `${program} is not on PATH`);
    this.timeout(2 * START_TIMEOUT_MS);
    await server.start();
    const folder = temporaryFolder();
    symlinkSync(deploy, join(folder, "deploy"));
    mkdirSync(join(folder, "bin"));
    symlinkSync(join(repository, "packages/cli/bin/diskmesh.mjs"), join(folder, "bin/diskmesh"));
    writeFileSync(join(folder, "values.yaml"), blocksOf("yaml").find((block) => block.includes("csi:")) ?? "");
    // The last block forwards ports of pods, which do not run here.
    const script = blocksOf("sh").filter((block) => !block.includes("port-forward"));
    expect(script).to.have.lengthOf(3);
    const env = { ...server.env, PATH: `${join(folder, "bin")}:${process.env.PATH}` };
    const { status, stderr } = spawnSync("bash", ["-euo", "pipefail", "-c", script.join("\n")], {
      cwd: folder,
      env,
      encoding: "utf8",
    });
    expect(status, stderr).to.equal(0);
    workloads = JSON.parse(
      server.kubectl("--namespace", "diskmesh", "get", "statefulsets,daemonsets,deployments", "--output", "json"),
    ).items;
  });
  after(() => server.stop());

  it("is installed by what the guide says", () => {
    expect(workloads.map(({ metadata }) => metadata.name)).to.have.members([
      ...["director", "disk-registry", "cpi-dispatcher", "nats", "disk-agent", "csi-controller", "csi-node"],
    ]);
    expect(
      server.kubectl("get", "csidriver,storageclass,volumeattributesclass", "--output", "name").split("\n"),
    ).to.include("csidriver.storage.k8s.io/csi.diskmesh");
  });

  it("has pods that the namespace admits, whose secrets have the files that configs name", () => {
    for (const { kind, metadata, spec } of workloads) {
      const pod = { apiVersion: "v1", kind: "Pod", ...spec?.template };
      server.post({
        ...pod,
        metadata: {
          ...spec?.template?.metadata,
          name: `${kind.toLowerCase()}-${metadata.name}`,
          namespace: "diskmesh",
        },
      });
    }
    for (const name of ["director", "disk-registry", "cpi-dispatcher"]) {
      const { data } = JSON.parse(server.kubectl("--namespace", "diskmesh", "get", "secret", name, "--output", "json"));
      const text = readFileSync(join(deploy, `helm/diskmesh/config/${name}.yaml`), "utf8");
      const named = [...text.matchAll(/File: ([\w.-]+)/g)].map(([, file]) => file);
      expect(Object.keys(data), name).to.include.members(named);
    }
  });

  it("has agents that learn the zone of their node", () => {
    const zone = "topology.kubernetes.io/zone";
    server.post({ apiVersion: "v1", kind: "Node", metadata: { name: "node-1", labels: { [zone]: "z1" } } });
    const name = "daemonset-disk-agent";
    server.post({ apiVersion: "v1", kind: "Binding", metadata: { name }, target: { kind: "Node", name: "node-1" } }, [
      ...["create", "--raw", `/api/v1/namespaces/diskmesh/pods/${name}/binding`, "--filename", "-"],
    ]);
    const pod = parse(server.kubectl("--namespace", "diskmesh", "get", "pod", name, "--output", "yaml"));
    expect(pod.metadata.labels[zone]).to.equal("z1");
  });
});
