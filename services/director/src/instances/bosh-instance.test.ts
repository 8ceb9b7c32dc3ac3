import { expect } from "chai";
import { boshInstance } from "./bosh-instance.js";
import { newInstance } from "./instance.js";
import { vmCreatedAt } from "./wire.js";

const bare = newInstance({ instanceId: "id", deployment: "dep", group: "web", index: 0, az: "z1" });
const withVm = { ...bare, vmCid: "vm-1", agentId: "agent-1", stemcell: "a/b/1.2", ips: { a: "10.0.0.1" } };

describe("instances in the lists of BOSH's clients", () => {
  it("without a VM -> no VM fields", () => {
    expect(boshInstance(bare, [], undefined)).to.include({
      vm_cid: null,
      job_state: null,
      state: "started",
      id: "id",
    });
  });

  it("with a VM -> its agent's state, and the addresses of all sources, each once", () => {
    const vm = { ...withVm, networks: { a: { ip: "10.0.0.1" }, b: { ip: "10.0.1.7" }, c: null } };
    const agent = { job_state: "failing", vitals: { load: ["0.1"] }, processes: [{ name: "p" }] };
    const line = boshInstance(vm, [], agent);
    expect(line).to.deep.include({ ...agent, vm_cid: "vm-1", ips: ["10.0.0.1", "10.0.1.7"], disk_cids: [] });
    expect(line).to.deep.include({ stemcell: { name: "a/b", version: "1.2", api_version: 0 } });
  });

  it("with a VM -> its type, its time and its cloud properties, as far as they are recorded", () => {
    const vm = { stemcell: "", cloudProperties: { ram: 1 }, networks: {}, env: {}, tags: {}, member: "web/0" };
    const made = { ...withVm, basis: { ...vm, vmType: "large" }, vmCreatedAtMs: 1_767_225_600_500 };
    expect(boshInstance(made, [], {}, vmCreatedAt(made))).to.deep.include({
      vm_type: "large",
      vm_created_at: "2026-01-01T00:00:00Z",
      cloud_properties: { ram: 1 },
    });
    const ofEarlierRelease = { ...withVm, basis: vm };
    expect(boshInstance(ofEarlierRelease, [], {}, vmCreatedAt(ofEarlierRelease))).to.deep.include({
      vm_type: null,
      vm_created_at: null,
    });
  });

  it("addresses -> for each network the address in use, otherwise the reserved address", () => {
    const networks = { a: { ip: "10.0.0.9" }, c: {}, d: { ip: "" } };
    const vm = { ...withVm, ips: { a: "10.0.0.1", b: "10.0.1.1" }, networks };
    expect(boshInstance(vm, [], {})).to.deep.include({ ips: ["10.0.0.9", "10.0.1.1"] });
  });

  it("an agent's excessive or malformed state -> still a readable line", () => {
    const processes = Array.from({ length: 1_000 }, (_, index) => ({ name: `process-${index}` }));
    expect(JSON.stringify(boshInstance(withVm, [], { processes })).length).to.be.below(16_000);
    const odd = boshInstance(withVm, [], { job_state: 7, vitals: "x", processes: "y" });
    expect(odd).to.deep.include({ job_state: "running", vitals: null, processes: [] });
  });

  it("state fields of a wrong type -> left out, and the others are kept", () => {
    const vitals = {
      cpu: { sys: 1, user: "2", wait: null },
      CPU: { sys: 7 },
      mem: ["x"],
      uptime: { secs: -1 },
      load: ["0.1", 7, null],
      disk: { system: { percent: "3", inode_percent: {} }, odd: 5 },
    };
    const process = { name: "p", state: "running", cpu: { total: "1" }, mem: { kb: 1.5, percent: 2.5 }, uptime: "x" };
    expect(boshInstance(withVm, [], { vitals, processes: [process, 7, null] })).to.deep.include({
      vitals: { cpu: { user: "2" }, uptime: {}, load: ["0.1"], disk: { system: { percent: "3" } } },
      processes: [{ name: "p", state: "running", cpu: {}, mem: { percent: 2.5 } }],
    });
  });
});
