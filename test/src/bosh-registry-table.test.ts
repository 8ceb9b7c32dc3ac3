import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Instance, TaskState } from "@diskmesh/api/director";
import { VERSION_TABLE } from "@diskmesh/cpi/testing";
import { stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import type { PlacedMesh, ProcessPlan } from "./mesh/plan.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { uploadOf } from "./mesh/upload-of.js";
import { mbusOf } from "./multi-cpi/configs.js";
import { ReferenceCpi } from "./reference-cpi/install.js";

const LOGIN = { user: "cpi", password: "password-of-the-registry" };
const BLOBSTORES = [{ provider: "dav" }];
const CLOUD = `
azs: [{ name: cpi1, cpi: cpi1 }, { name: cpi2, cpi: cpi2 }]
vm_types: [{ name: small }]
networks: [{ name: private, subnets: [{ range: 127.0.43.0/24, gateway: 127.0.43.1, azs: [cpi1, cpi2] }] }]
`;
const group = (cpi: number, stemcell: number): string =>
  `- {name: vm${cpi}${stemcell}, instances: 1, azs: [cpi${cpi}], stemcell: of${stemcell}, vm_type: small, networks: [{name: private}]}\n`;
const MANIFEST = `name: web
stemcells: [{alias: of1, name: old, version: "1"}, {alias: of2, name: new, version: "1"}]
instance_groups:
${[1, 2].flatMap((cpi) => [group(cpi, 1), group(cpi, 2)]).join("")}`;

interface AgentSettings {
  readonly agent_id: string;
  readonly env: {
    readonly bosh: { readonly mbus: { readonly urls: readonly string[] }; readonly blobstores?: object };
  };
}

describe("which of director, CPI and stemcell needs the bosh-registry, with CPIs that are processes", () => {
  let mesh: TestMesh;
  let installed: ReadonlyMap<number, ReferenceCpi>;

  before(async () => {
    mesh = await TestMesh.start({
      processes: [{ service: "cpi-dispatcher" }, DIRECTOR],
      listeners: ["bosh-registry"],
      vmAgents: true,
      deadlineMs: 120_000,
    });
    installed = new Map(
      [1, 2].map((version) => [version, new ReferenceCpi(join(mesh.folder, "cpis", String(version)))]),
    );
    await mesh.clients.configs.updateConfig({ type: "cpi", content: JSON.stringify({ cpis: cpis() }) });
    await mesh.clients.configs.updateConfig({ type: "cloud", content: CLOUD });
    for (const [name, api_version] of [
      ["old", undefined],
      ["new", 2],
    ] as const)
      await mesh.clients.stemcells.uploadStemcell(uploadOf(stemcellFile({ name, version: "1", api_version })));
  });
  after(async () => {
    for (const cpi of installed?.values() ?? []) await cpi.stopVms();
    await mesh?.[Symbol.asyncDispose]();
  });

  const cpis = () =>
    [...installed].map(([version, { execPath, stateFolder }]) => ({
      name: `cpi${version}`,
      type: "reference",
      exec_path: execPath,
      properties: {
        speaks_api_version: version,
        state_folder: stateFolder,
        registry: { endpoint: `http://${mesh.address("bosh-registry")}`, ...LOGIN },
        agent: { mbus: mbusOf(natsFor("cpi", mesh), mesh.vmAgentFiles) },
      },
    }));

  /** Settings that the director serves for a VM; undefined for none. */
  async function served({ vmCid }: Instance): Promise<AgentSettings | undefined> {
    const authorization = `Basic ${Buffer.from(`${LOGIN.user}:${LOGIN.password}`).toString("base64")}`;
    const url = `http://${mesh.address("bosh-registry")}/instances/${vmCid}/settings`;
    const answer = await fetch(url, { headers: { authorization } });
    const { settings } = (await answer.json()) as { settings?: string };
    return settings === undefined ? undefined : JSON.parse(settings);
  }

  for (const version of [1, 2])
    describe(`a director of version ${version}`, () => {
      let instances: readonly Instance[];

      before(async () => {
        await mesh.process("director").restart({ ...mesh.configOf(DIRECTOR), cpi: { preferredApiVersion: version } });
        await mesh.clients.deployments.deleteDeployment({ deployment: "web", wait: true });
        const { task } = await mesh.clients.deployments.deploy({ manifest: MANIFEST, wait: true });
        expect(task?.state, task?.result).to.equal(TaskState.DONE);
        ({ instances } = await mesh.clients.deployments.listInstances({ deployment: "web" }));
      });

      for (const [, cpi, stemcell, updatesRegistry] of VERSION_TABLE.filter(([director]) => director === version))
        it(`CPI ${cpi}, stemcell ${stemcell} -> ${updatesRegistry ? "the bosh-registry has" : "user data have"} the agent's settings`, async () => {
          const instance = instances.find((each) => each.group === `vm${cpi}${stemcell}`) as Instance;
          const vm = { usesRegistry: updatesRegistry, vmState: "VM_STATE_RUNNING", stemcellApiVersion: stemcell };
          expect(instance).to.include({ ...vm, cpiApiVersion: Math.min(version, cpi), cpi: `cpi${cpi}` });
          const file = join(installed.get(cpi)?.vmFolder(instance.vmCid) ?? "", "user-data.json");
          const userData = JSON.parse(readFileSync(file, "utf8")) as { settings?: AgentSettings };
          const inRegistry = await served(instance);
          expect([inRegistry !== undefined, userData.settings === undefined]).to.deep.equal([
            updatesRegistry,
            updatesRegistry,
          ]);
          const { agent_id, env } = (inRegistry ?? userData.settings) as AgentSettings;
          expect(agent_id).to.equal(instance.agentId);
          const teller = updatesRegistry ? "cpi" : "director";
          expect(env.bosh.mbus.urls, "who tells the agent where NATS is").to.deep.equal([
            `nats://${natsFor(teller, mesh)}`,
          ]);
          expect(env.bosh.blobstores).to.deep.equal(updatesRegistry ? undefined : BLOBSTORES);
        });
    });
});

/** Returns an address of the NATS server that reveals its source: the CPI and the director each get a different one. */
function natsFor(teller: "cpi" | "director", mesh: PlacedMesh): string {
  return teller === "director" ? mesh.address("nats") : mesh.address("nats").replace("127.0.0.1", "localhost");
}

const DIRECTOR: ProcessPlan = {
  service: "director",
  config: (mesh: PlacedMesh) => ({
    agents: { settings: { mbus: mbusOf(natsFor("director", mesh), mesh.vmAgentFiles), blobstores: BLOBSTORES } },
    boshRegistry: { listen: mesh.listen("bosh-registry"), ...LOGIN },
  }),
};
