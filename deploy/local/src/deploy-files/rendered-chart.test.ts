import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { parse } from "yaml";
import { ChartSecrets, checkConfig, REPLICAS } from "./testing/chart-files.js";
import { type Container, helm, type KubernetesObject, type Pod, rendered, skipWithoutHelm } from "./testing/helm.js";
import { deploy, programs, version } from "./testing/release-facts.js";

const AZS = "csi.azs={z1}";
const HTTP = 'director.config.http={"listen":{"host":"0.0.0.0"}}';
const PEERS = 'networkPolicy.from=[{"ipBlock":{"cidr":"10.0.0.0/16"}}]';
const CLASSES = [
  {
    ...{ name: "fast", default: true, reclaimPolicy: "Retain", mountOptions: ["noatime"] },
    parameters: { pool: "nvme", "csi.storage.k8s.io/fstype": "xfs" },
  },
  { name: "plain" },
];

/** Values of users, by what they want. */
const VARIANTS: Readonly<Record<string, readonly string[]>> = {
  "the whole mesh and the CSI driver": ["--set", AZS, "--set", "podMonitor.enabled=true"],
  "agents without privileges": ["--set", "csi.enabled=false,agents.blockDevices=false"],
  "agents with block devices": ["--set", "csi.enabled=false"],
  "nodes that are instances": ["--set", `${AZS},csi.deployment=kubernetes`],
  "the CSI driver alone": ["--set", `${AZS},controlPlane.enabled=false,agents.enabled=false`],
  "other networks, an HTTPS API, stemcells": [
    ...["--set", `${AZS},stemcellsClaim=stemcells,imagePullSecrets[0].name=registry,controlPlane.init=true`],
    ...["--set-json", HTTP, "--set-json", PEERS],
  ],
};
const WHOLE = VARIANTS["the whole mesh and the CSI driver"] ?? [];

const podOf = (object: KubernetesObject): Pod | undefined => object.spec?.template?.spec;
const ours = (pod: Pod): Container =>
  pod.containers.find(({ image, name }) => image.startsWith("diskmesh:") || name === "nats") as Container;

/** Returns whether the labels of an object's pods have what a selector wants. */
function selects(wanted: Readonly<Record<string, string>>, object: KubernetesObject): boolean {
  const labels = object.spec?.template?.metadata.labels;
  return labels !== undefined && Object.entries(wanted).every(([key, value]) => labels[key] === value);
}

describe("the rendered Helm chart", () => {
  before(skipHere);
  function skipHere(this: Mocha.Context): void {
    skipWithoutHelm(this);
  }

  for (const [what, args] of Object.entries(VARIANTS))
    describe(`for ${what}`, () => {
      it("is accepted by helm lint", () => {
        const { status, output } = helm("lint", ...args);
        expect(status, output).to.equal(0);
      });

      it("fits the schemas of Kubernetes", function () {
        if (spawnSync("kubernetes-validate", ["--version"]).error)
          skipBecause(this, "kubernetes-validate is not on PATH");
        const file = join(temporaryFolder(), "objects.yaml");
        const { text } = rendered(...args);
        // The Prometheus operator brings its own.
        const known = text.split("\n---\n").filter((object) => !object.includes("kind: PodMonitor"));
        writeFileSync(file, known.join("\n---\n"));
        const check = spawnSync("kubernetes-validate", ["--strict", "--quiet", "-k", "1.37", file], {
          encoding: "utf8",
        });
        expect(check.status, check.stdout + check.stderr).to.equal(0);
      });

      it("mounts volumes that exist, and runs programs of the release's image", async () => {
        const known = [...(await programs()), "nats-server", "chown", "sh"];
        for (const pod of rendered(...args).objects.flatMap((object) => podOf(object) ?? [])) {
          const volumes = pod.volumes.map(({ name }) => name);
          for (const { command, image, volumeMounts = [] } of [...(pod.initContainers ?? []), ...pod.containers]) {
            for (const { name } of volumeMounts) expect(volumes).to.include(name);
            if (image.startsWith("diskmesh")) expect(image).to.equal(`diskmesh:${version()}`);
            if (command !== undefined) expect(known).to.include(command[0]);
          }
        }
      });
    });

  it("refuses unknown values, and the CSI driver without an AZ", () => {
    expect(helm("template", "--set", `${AZS},csi.azzs=z1`).output).to.contain("'azzs' not allowed");
    expect(helm("template").output).to.contain("csi.azs is empty");
  });

  it("takes images by digest and from any registry, and another kubelet's folder, resources, probes and classes", () => {
    const digest = `sha256:${"0a".repeat(32)}`;
    const images = ["provisioner", "attacher", "resizer", "registrar"].map((name) => `mirror:5000/${name}@${digest}`);
    const { objects, text } = rendered(
      ...["--set", `${AZS},image.repository=mirror:5000/diskmesh,image.digest=${digest},nats.image=mirror:5000/nats`],
      ...["--set", `csi.kubeletFolder=/data/kubelet,probes.liveness.failureThreshold=9,csi.resources.limits.cpu=2`],
      ...images.flatMap((image) => ["--set", `csi.sidecars.${/\/(\w+)@/.exec(image)?.[1]}.image=${image}`]),
      ...["--set", "csi.sidecars.resizer.resources.limits.memory=64Mi"],
      ...["--set-json", `csi.classes=${JSON.stringify(CLASSES)}`, "--set-json", "csi.attributesClasses=[]"],
    );
    const pods = objects.flatMap((object) => podOf(object) ?? []);
    const containers = pods.flatMap(({ initContainers = [], containers }) => [...initContainers, ...containers]);
    const ours = `mirror:5000/diskmesh@${digest}`;
    expect(new Set(containers.map(({ image }) => image))).to.deep.equal(new Set([ours, "mirror:5000/nats", ...images]));
    expect(text).to.contain("mountFolders: [/data/kubelet]").and.not.to.contain("/var/lib/kubelet");
    for (const { livenessProbe } of containers.filter((each) => each.livenessProbe !== undefined))
      expect(livenessProbe).to.include({ failureThreshold: 9, timeoutSeconds: 5 });
    const limitsOf = (wanted: string) => containers.find(({ name }) => name === wanted)?.resources?.limits;
    expect(limitsOf("resizer")).to.deep.equal({ memory: "64Mi" });
    expect(limitsOf("csi-driver")).to.deep.equal({ cpu: 2, memory: "512Mi" });
    const classes = objects.filter(({ kind }) => kind.endsWith("Class"));
    expect(classes).to.have.lengthOf(2);
    expect(classes[0]).to.deep.include({ reclaimPolicy: "Retain", mountOptions: ["noatime"] });
    const isDefault = { "storageclass.kubernetes.io/is-default-class": "true" };
    expect(classes[0]?.metadata).to.deep.include({ name: "fast", annotations: isDefault });
    expect(classes.map(({ parameters }) => parameters)).to.deep.equal([
      { pool: "nvme", "csi.storage.k8s.io/fstype": "xfs" },
      { pool: "default", "csi.storage.k8s.io/fstype": "ext4" },
    ]);
    for (const wrong of ["image.digest=latest", "csi.kubeletFolder=kubelet", "csi.sidecars.resizer.tag=v1"])
      expect(helm("template", "--set", `${AZS},${wrong}`).status, wrong).not.to.equal(0);
  });

  it("runs only the agent and the node's part of the CSI driver with privileges, and as few as possible", () => {
    const user = Number(/^USER (\d+):/m.exec(readFileSync(join(deploy, "container/Containerfile"), "utf8"))?.[1]);
    const privileged = (args: readonly string[]) => {
      const names: string[] = [];
      for (const pod of rendered(...args).objects.flatMap((object) => podOf(object) ?? [])) {
        const { name, securityContext = {} } = ours(pod);
        const runsAs = securityContext.runAsUser ?? pod.securityContext?.runAsUser;
        if (securityContext.privileged) names.push(`${name} ${runsAs}`);
        else {
          expect(runsAs, name).to.equal(user);
          expect(securityContext.readOnlyRootFilesystem, name).to.equal(true);
          expect(securityContext.capabilities, name).to.deep.equal({ drop: ["ALL"] });
        }
      }
      return names;
    };
    expect(privileged(WHOLE)).to.have.members(["disk-agent 0", "csi-driver 0"]);
    expect(privileged(VARIANTS["agents with block devices"] ?? [])).to.deep.equal([`disk-agent ${user}`]);
    expect(privileged(VARIANTS["agents without privileges"] ?? [])).to.deep.equal([]);
  });

  it("updates an agent that block devices need only when a person deletes its pod", () => {
    const strategy = (args: readonly string[]) =>
      rendered(...args).objects.find(({ kind, metadata }) => kind === "DaemonSet" && metadata.name === "disk-agent")
        ?.spec?.updateStrategy?.type;
    expect(strategy(WHOLE)).to.equal("OnDelete");
    expect(strategy(VARIANTS["agents with block devices"] ?? [])).to.equal("RollingUpdate");
  });

  it("creates the volume of a scheduled pod in no other zone than that of its node", () => {
    const controller = rendered(...WHOLE).objects.find(
      ({ metadata, kind }) => kind === "Deployment" && metadata.name === "csi-controller",
    );
    const provisioner = controller && podOf(controller)?.containers.find(({ name }) => name === "provisioner");
    expect(provisioner?.args).to.include("--strict-topology");
  });

  it("keeps udev of a node off disks where its agent makes block devices, with a file of the release", () => {
    const commands = (args: readonly string[]) =>
      rendered(...args)
        .objects.flatMap((object) => podOf(object)?.initContainers ?? [])
        .filter(({ name }) => name === "udev-rules")
        .map(({ command = [] }) => command.join(" "));
    const [command = "", ...others] = commands(WHOLE);
    expect(others).to.deep.equal([]);
    const [, file = ""] = /cp \/opt\/diskmesh\/(\S+) \/run\/udev\/rules\.d\/$/.exec(command) ?? [];
    expect(existsSync(join(deploy, file)), command).to.equal(true);
    expect(commands(VARIANTS["agents without privileges"] ?? [])).to.deep.equal([]);
  });

  it("has the agent's sockets and devices at the same paths in its container as on the node", () => {
    const agent = rendered(...WHOLE).objects.find(
      ({ metadata, kind }) => kind === "DaemonSet" && metadata.name === "disk-agent",
    );
    const pod = podOf(agent as KubernetesObject) as Pod;
    const mounts = new Map(ours(pod).volumeMounts?.map(({ name, mountPath }) => [name, mountPath]));
    const shared = pod.volumes.filter(({ hostPath }) => hostPath !== undefined);
    expect(shared).to.have.lengthOf(4);
    for (const { name, hostPath } of shared) expect(mounts.get(name)).to.equal(hostPath?.path);
  });

  it("has a disruption budget for each part with several pods, and rules for ports that pods have", () => {
    const { objects } = rendered(...(VARIANTS["other networks, an HTTPS API, stemcells"] ?? []));
    const several = objects.filter(({ spec }) => (spec?.replicas ?? 0) > 1);
    const budgets = objects.filter(({ kind }) => kind === "PodDisruptionBudget");
    const kept = budgets.map(({ spec }) =>
      several.filter((object) => selects(spec?.selector?.matchLabels ?? {}, object)),
    );
    expect(kept.flat()).to.have.members(several);
    expect(several).to.have.lengthOf(5);
    const policies = objects.filter(({ kind, spec }) => kind === "NetworkPolicy" && spec?.ingress !== undefined);
    expect(policies).to.have.lengthOf(5);
    for (const { spec } of policies)
      for (const object of objects.filter((each) => selects(spec?.podSelector?.matchLabels ?? {}, each))) {
        const ports = ours(podOf(object) as Pod).ports?.map(({ name }) => name);
        const allowed = spec?.ingress?.flatMap((rule) => rule.ports.map(({ port }) => port));
        expect(allowed).to.have.members(ports ?? []);
      }
  });

  it("has as many pods as the configs name", () => {
    const sets = rendered(...WHOLE).objects.filter(({ kind }) => kind === "StatefulSet");
    expect(Object.fromEntries(sets.map(({ metadata, spec }) => [metadata.name, spec?.replicas]))).to.deep.equal(
      REPLICAS,
    );
  });

  describe("with certificates of its list", () => {
    let secrets: ChartSecrets;
    let objects: readonly KubernetesObject[];

    before(() => {
      secrets = new ChartSecrets();
      objects = rendered(...WHOLE).objects;
    });

    it("has nodes that are the agents' hosts, or with a deployment its instances, and classes for them", () => {
      const partsOf = (args: readonly string[]) => {
        objects = rendered(...args).objects;
        const [agent, node] = ["disk-agent", "csi-node"].map((name) => {
          const container = ours(podOf(find(name)) as Pod);
          const given = Object.keys(configOf(name)?.data ?? {})[0] ?? "";
          const folder = secrets.mounted("csi-kubernetes", given || "none.yaml", configOf(name)?.data?.[given] ?? "");
          makeConfig(container, name, folder);
          const file = /--config (\S+)/.exec(commandOf(container, name, folder).join(" "))?.[1] ?? "";
          return parse(readFileSync(file, "utf8"));
        });
        const { controller } = parse(configOf("csi-controller")?.data?.["csi-driver.yaml"] ?? "");
        const { parameters } = objects.find(({ kind }) => kind === "StorageClass") as KubernetesObject;
        return { agent, node: node.node, controller, parameters };
      };
      const instances = partsOf(VARIANTS["nodes that are instances"] ?? []);
      expect(instances.node).to.include({ instanceId: "00000000-0000-4000-8000-000000000000" });
      expect(instances.controller).to.include({ deployment: "kubernetes" }).and.not.to.have.property("cluster");
      expect(instances.parameters).to.include({ diskType: "default" });
      const hosts = partsOf(WHOLE);
      expect(hosts.node).to.include({ hostId: hosts.agent.hostId, exportsFolder: `${hosts.agent.baseFolder}/exports` });
      expect(hosts.controller).to.include({ cluster: "kubernetes" }).and.not.to.have.property("deployment");
      expect(hosts.parameters).to.include({ pool: "default" });
    });

    /** Returns the environment of a container of the first pod, on node.1. */
    function environmentOf({ env = [] }: Container, name: string): Record<string, string> {
      const known: Record<string, string> = { POD_NAME: `${name}-0`, NODE_NAME: "node.1", NODE_ADDRESS: "10.0.0.1" };
      for (const { name: variable, value } of env) known[variable] ??= value ?? "z1";
      return known;
    }

    /** Returns the command of a container of the first pod, with its folders of configs replaced by `folder`. */
    function commandOf({ command = [] }: Container, name: string, folder: string): string[] {
      return command.map((word) =>
        word
          .replaceAll("$(POD_NAME)", `${name}-0`)
          .replaceAll("/tmp/", `${folder}/made-`)
          .replaceAll("/etc/diskmesh", folder)
          .replaceAll("/config/", `${folder}/`),
      );
    }

    /** Runs the shell of a container that makes its config, without the service. */
    function makeConfig(container: Container, name: string, folder: string): void {
      writeFileSync(join(folder, "instance-id"), "00000000-0000-4000-8000-000000000000\n");
      const programs = temporaryFolder();
      for (const program of ["diskmesh-disk-agent", "diskmesh-csi-driver"])
        writeFileSync(join(programs, program), "#!/bin/sh\n", { mode: 0o755 });
      const env = { ...environmentOf(container, name), PATH: `${programs}:${process.env.PATH}` };
      const [shell = "", ...args] = commandOf(container, name, folder);
      const { status, stderr } = spawnSync(shell, args, { env, encoding: "utf8" });
      expect(status, stderr).to.equal(0);
    }

    const find = (name: string) =>
      objects.find((each) => podOf(each) && each.metadata.name === name) as KubernetesObject;
    const configOf = (name: string) =>
      objects.find(({ kind, metadata }) => kind === "ConfigMap" && metadata.name === name);

    for (const [name, service, holder] of [
      ["director", "director", "director"],
      ["disk-registry", "disk-registry", "disk-registry"],
      ["cpi-dispatcher", "cpi-dispatcher", "cpi-dispatcher"],
      ["disk-agent", "disk-agent", "disk-agent-node-1"],
      ["csi-controller", "csi-driver", "csi-kubernetes"],
      ["csi-node", "csi-driver", "csi-kubernetes"],
    ] as const)
      it(`gives the pods of ${name} a config that the ${service} accepts, and probes where it answers`, () => {
        const container = ours(podOf(find(name)) as Pod);
        const kept = configOf(name)?.data ?? {};
        const given = Object.keys(kept)[0] ?? "";
        const folder = secrets.mounted(holder, given || "none.yaml", kept[given] ?? "");
        const command = commandOf(container, name, folder);
        if (command[0] === "sh") makeConfig(container, name, folder);
        else expect(command[0]).to.equal(`diskmesh-${service}`);
        const file = /--config (\S+)/.exec(command.join(" "))?.[1] ?? "";
        expect(checkConfig(service, file)).to.match(/^0 /);
        const config = readFileSync(file, "utf8");
        const listen = parse(config).health?.listen.port;
        const { readinessProbe, livenessProbe } = container;
        expect([readinessProbe?.httpGet?.port, livenessProbe?.httpGet?.port]).to.deep.equal([listen, listen]);
        // The leader and its standby are both ready, or no update and no disruption budget would ever end.
        const query = /^(director|disk-registry)$/.test(name) ? "?standbyok" : "";
        expect(readinessProbe?.httpGet?.path).to.equal(`/readyz${query}`);
        const ports = container.ports
          ?.filter((each) => each.name !== "https")
          .map(({ containerPort }) => containerPort);
        const { listen: grpc, blockListen, metrics } = parse(config);
        const listens = [grpc, blockListen, metrics?.listen].flatMap((each) => each?.port ?? []);
        expect(ports ?? []).to.have.members(listens);
      });
  });
});
