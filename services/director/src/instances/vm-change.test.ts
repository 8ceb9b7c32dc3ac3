import { expect } from "chai";
import { sameCpi } from "../specs/cpi-choice.js";
import type { Instance, VmBasis } from "../store/instance.js";
import type { JsonObject } from "../store/json.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import { agentAnswered, intendCreateVm, newInstance, vmCreated } from "./instance.js";
import { decideVmChange, type WantedVm } from "./vm-change.js";

const BASIS: VmBasis = {
  stemcell: "ubuntu/1",
  cloudProperties: { ram: 1, zone: "a" },
  networks: { private: { ip: "10.0.0.3", prefix: "24" }, any: { type: "dynamic" } },
  env: { bosh: { password: "hidden" } },
  tags: { team: "t" },
  member: "db/0",
};

function made(more: Partial<Instance> = {}): Instance {
  const place = newInstance({ instanceId: "i1", deployment: "web", group: "db", index: 0, az: "z1" });
  const vm = { cpi: "east", cpiApiVersion: 1, usesRegistry: true };
  const vmSpec = { stemcellCid: "sc", cloudProperties: {}, networks: {}, env: {} };
  const intent = { vmToken: "t", stemcell: "ubuntu/1", stemcellApiVersion: 2, ips: {}, ...vm, vmSpec, basis: BASIS };
  const created = vmCreated(intendCreateVm(place, intent), { ...vm, vmCid: "vm", agentId: "a", networks: {} });
  return { ...agentAnswered(created), ...more };
}

const ON_EAST = { cpi: "east", diskCid: "disk-1" } as PersistentDisk;
const CPIS = {
  cpis: [
    { name: "east", migratedFrom: [] },
    { name: "orient", migratedFrom: ["east"] },
    { name: "west", migratedFrom: [] },
  ],
};
const RENAMED = { cpis: CPIS.cpis.slice(1) };

describe("changes of a VM by a deploy", () => {
  const CASES: [string, string, { cpi?: string; basis?: Partial<VmBasis>; instance?: Partial<Instance> }][] = [
    ["nothing", "keep", {}],
    ["the order of names alone", "keep", { basis: { cloudProperties: { zone: "a", ram: 1 } } }],
    [
      "the stemcell",
      "recreate: its stemcell is to be `ubuntu/2` instead of `ubuntu/1`",
      { basis: { stemcell: "ubuntu/2" } },
    ],
    [
      "no stemcell any more",
      "recreate: its stemcell is to be `none` instead of `ubuntu/1`",
      { basis: { stemcell: "" } },
    ],
    [
      "a cloud property",
      "recreate: its cloud properties have changed",
      { basis: { cloudProperties: { ram: 2, zone: "a" } } },
    ],
    [
      "a cloud property more",
      "recreate: its cloud properties have changed",
      { basis: { cloudProperties: { ...BASIS.cloudProperties, lb: "web" } } },
    ],
    ["its address", "recreate: its networks have changed", { basis: { networks: { private: { ip: "10.0.0.4" } } } }],
    ["a network more", "recreate: its networks have changed", { basis: { networks: { ...BASIS.networks, more: {} } } }],
    ["env", "recreate: its env has changed", { basis: { env: { bosh: { password: "other" } as JsonObject } } }],
    [
      "env and stemcell",
      "recreate: its stemcell is to be `ubuntu/2` instead of `ubuntu/1`, its env has changed",
      { basis: { env: {}, stemcell: "ubuntu/2" } },
    ],
    ["tags", "set_metadata", { basis: { tags: {} } }],
    ["tags and env", "recreate: its env has changed", { basis: { tags: {}, env: {} } }],
    ["the CPI of the az", "recreate: its az has CPI `west` instead of `east`", { cpi: "west" }],
    ["the az has no CPI any more", "recreate: its az has CPI (default) instead of `east`", { cpi: "" }],
    [
      "everything, but the basis of the VM is unknown",
      "keep",
      { cpi: "west", basis: { env: {} }, instance: { basis: null } },
    ],
    ["its CPI speaks version 2 since", "keep", { instance: { cpiApiVersion: 1, usesRegistry: true } }],
  ];
  for (const [cause, effect, { cpi = "east", basis = {}, instance = {} }] of CASES) {
    it(`changed: ${cause} -> ${effect}`, () => {
      const wanted: WantedVm = { cpi, basis: { ...BASIS, ...basis } };
      const change = decideVmChange(made(instance), wanted, undefined, (a, b) => sameCpi(a, b, CPIS));
      expect(change.do === "recreate" ? `recreate: ${change.because}` : change.do).to.equal(effect);
    });
  }

  it("a CPI renamed by migrated_from -> keep", () => {
    const change = decideVmChange(made(), { cpi: "orient", basis: BASIS }, ON_EAST, (a, b) => sameCpi(a, b, RENAMED));
    expect(change).to.deep.equal({ do: "keep" });
  });

  it("another CPI while the persistent disk is with the old CPI -> refused, with the remedy", () => {
    expect(() => decideVmChange(made(), { cpi: "west", basis: BASIS }, ON_EAST, (a, b) => a === b)).to.throw(
      /db\/i1 cannot move to CPI `west`, because its persistent disk `disk-1` uses CPI `east`: give the az that CPI back/,
    );
  });
});
