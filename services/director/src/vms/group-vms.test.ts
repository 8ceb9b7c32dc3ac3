import { stemcellFile } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

describe("required VM keys of an instance group", () => {
  const NETWORKS = "networks: [{name: any}]";
  const ALL = `stemcell: s, vm_type: small, ${NETWORKS}`;
  const ROWS: [string, RegExp | undefined][] = [
    [ALL, undefined],
    [`${ALL}, vm_extensions: [more]`, undefined],
    [
      `vm_type: small, ${NETWORKS}`,
      /^instance group `db` names no stemcell, but the default CPI needs them to create VMs/,
    ],
    [`stemcell: s, ${NETWORKS}`, /names no vm_type, but/],
    [`stemcell: s, vm_extensions: [more], ${NETWORKS}`, /names no vm_type, but/],
    ["stemcell: s, vm_type: small", /names no networks, but/],
    ["instances: 0", /names no stemcell, vm_type, networks, but/],
  ];
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start();
    const content = `
azs: [{name: z1}]
vm_types: [{name: small}]
vm_extensions: [{name: more}]
networks: [{name: any, type: dynamic}]
`;
    await director.configs.updateConfig({ type: "cloud", content });
    await director.upload(stemcellFile({ name: "s", version: "1" }));
  });
  after(() => director?.stop());

  const deploy = async (group: string) => {
    const instances = group.includes("instances:") ? "" : "instances: 1, ";
    const manifest = `name: web\nstemcells: [{alias: s, name: s, version: latest}]\ninstance_groups: [{name: db, azs: [z1], ${instances}${group}}]\n`;
    return (await director.deployments.deploy({ manifest, wait: true })).task;
  };

  for (const [group, refusal] of ROWS)
    it(`${group} -> ${refusal === undefined ? "accepted" : "refused"} where the CPI creates VMs; accepted on a fleet`, async () => {
      director.cpi.needsVmSpec = true;
      const task = await deploy(group);
      if (refusal === undefined) expect(task?.result).to.equal("/deployments/web");
      else {
        expect(task?.result).to.match(refusal);
        const { deployments } = await director.deployments.listDeployments({});
        expect(deployments, "nothing of it is recorded").to.deep.equal([]);
      }
      director.cpi.needsVmSpec = false;
      expect((await deploy(group))?.result).to.equal("/deployments/web");
      await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    });
});
