import { spawnSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { isMap, isScalar, parse, parseDocument } from "yaml";
import { ChartSecrets, chart, checkConfig, REPLICAS, readChart } from "./testing/chart-files.js";
import { version } from "./testing/release-facts.js";

/** Lines that the templates add to the configs, by service. */
const ADDED: Readonly<Record<string, string>> = {
  director: "advertisedAddress: director-0.director:7010\n",
  "disk-registry": "advertisedAddress: disk-registry-0.disk-registry:7030\n",
  "disk-agent": "hostId: node-1\naz: z1\nadvertisedAddress: 10.0.0.1:7040\n",
};

describe("the Helm chart", () => {
  const services = ["director", "cpi-dispatcher", "disk-registry", "disk-agent"];

  it("has the release's version", () => {
    expect(parse(readChart("Chart.yaml"))).to.include({ version: version(), appVersion: version() });
  });

  it("has a comment at each value, and its schema has the same values", () => {
    const keysIn = (node: unknown, properties: Record<string, object>, path: string): void => {
      if (!isMap(node)) throw new Error(`${path} is no mapping`);
      const names = node.items.map(({ key }) => String(key));
      expect(Object.keys(properties), path).to.have.members(names);
      for (const [index, { key, value }] of node.items.entries()) {
        const schema = properties[String(key)] as { properties?: Record<string, object> };
        // The comment of a mapping's first key belongs to the mapping.
        const comment = (isScalar(key) && key.commentBefore) || (index === 0 && node.commentBefore) || "";
        if (schema.properties !== undefined) keysIn(value, schema.properties, `${path}.${key}`);
        else expect(comment, `${path}.${key}`).not.to.equal("");
      }
    };
    keysIn(
      parseDocument(readChart("values.yaml")).contents,
      JSON.parse(readChart("values.schema.json")).properties,
      "values",
    );
  });

  it("has addresses of pods, where these listen", () => {
    const ports = new Map<string, number>([["nats", 4222]]);
    for (const service of services) ports.set(service, parse(readChart(`config/${service}.yaml`)).listen.port);
    const texts = readdirSync(join(chart, "config")).filter((name) => name.endsWith(".yaml"));
    const addresses = texts.flatMap((name) => [
      ...readChart(`config/${name}`).matchAll(/"([a-z-]+)-(\d)\.([a-z-]+):(\d+)"/g),
    ]);
    expect(addresses).to.have.lengthOf(3 + 2 + 2 + 2 + 2 + 3 + 2);
    for (const [all, pod = "", number, service = "", port] of addresses) {
      expect([service, Number(port)], all).to.deep.equal([pod, ports.get(pod)]);
      expect(Number(number), all).to.be.below(REPLICAS[pod] ?? 0);
    }
  });

  describe("with certificates of its list", () => {
    let secrets: ChartSecrets;

    before(() => {
      secrets = new ChartSecrets();
    });

    for (const service of services)
      it(`has a config that the ${service} accepts`, () => {
        const name = `${service}.yaml`;
        const holder = service === "disk-agent" ? "disk-agent-node-1" : service;
        const folder = secrets.mounted(holder, name, readChart(`config/${name}`) + (ADDED[service] ?? ""));
        expect(checkConfig(service, join(folder, name))).to.match(/^0 /);
      });

    it("has a config that the controller of the CSI driver accepts", () => {
      const { controller, ...config } = parse(readChart("config/csi-controller.yaml"));
      const { cluster, maxVolumesPerNode } = parse(readChart("values.yaml")).csi;
      const all = { ...config, maxVolumesPerNode, controller: { ...controller, cluster, azs: ["z1"] } };
      const folder = secrets.mounted(`csi-${cluster}`, "csi-driver.yaml", JSON.stringify(all));
      expect(checkConfig("csi-driver", join(folder, "csi-driver.yaml"))).to.match(/^0 /);
    });

    it("names each pod and Service in its certificate, and all agents by the name that Prometheus expects", () => {
      for (const [service, replicas] of Object.entries(REPLICAS)) {
        const holder = service === "nats" ? "nats-kubernetes" : service;
        const certificate = new X509Certificate(readFileSync(secrets.certificateOf(holder)));
        const pods = Array.from({ length: replicas }, (_, number) => `${service}-${number}.${service}`);
        for (const host of [service, ...pods]) expect(certificate.checkHost(host), host).to.equal(host);
      }
      const agent = new X509Certificate(readFileSync(secrets.certificateOf("disk-agent-node-1")));
      expect(agent.checkHost("disk-agent")).to.equal("disk-agent");
    });

    it("has a configuration that nats-server accepts", function () {
      if (spawnSync("nats-server", ["--version"]).error) skipBecause(this, "nats-server is not on PATH");
      const folder = secrets.mounted("nats-kubernetes", "nats.conf", readChart("config/nats.conf"));
      const { status, stderr } = spawnSync("nats-server", ["--config", join(folder, "nats.conf"), "-t"], {
        env: { ...process.env, POD_NAME: "nats-0" },
        encoding: "utf8",
      });
      expect(status, stderr).to.equal(0);
    });
  });
});
