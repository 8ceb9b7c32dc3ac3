import { CpiConfigInvalidError, CpiUnusableError } from "@diskmesh/cpi";
import { InvalidArgumentError, InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import {
  type Choice,
  type Choosable,
  checkCpiNames,
  chooseCpis,
  DEFAULT_CPI,
  type Offer,
  type Wanted,
} from "./choice.js";
import type { CpiMethod } from "./methods.js";

const cpi = (name: string, fields: Partial<Choosable> = {}): Choosable => ({
  name,
  migratedFrom: [],
  stemcellFormats: [],
  ...fields,
});
const wanted = (method: CpiMethod, fields: Partial<Wanted> = {}): Wanted => ({
  method,
  az: "",
  azCpi: "",
  recordedCpi: "",
  unknownId: false,
  askOthers: false,
  stemcellFormats: [],
  exceptCpis: [],
  ...fields,
});

const left = cpi("left", { migratedFrom: ["old-left"], stemcellFormats: ["openstack-raw"] });
const right = cpi("right", { stemcellFormats: ["aws-raw", "aws-light"] });
const adopter = cpi("adopter", { migratedFrom: [""] });

/**
 * configured: a cpi-config with two CPIs. adopted: a third CPI has adopted the default CPI's objects. own: no
 * cpi-config, and two CPIs of the dispatcher itself.
 */
const byDefault = { defaultCpi: "fleet", defaultFormats: ["fleet-raw"] };
const configured: Offer = { isConfigured: true, cpis: [left, right], ...byDefault };
const adopted: Offer = { isConfigured: true, cpis: [left, right, adopter], ...byDefault };
const own: Offer = { isConfigured: false, cpis: [cpi("fleet"), cpi("cell-b")], ...byDefault };

const one = (name: string): Choice => ({ kind: "one", name });
const search = (...names: string[]): Choice => ({ kind: "search", names });
const z1 = { az: "z1", azCpi: "left" };

const EXISTING: CpiMethod[] = [
  "delete_vm",
  "has_vm",
  "reboot_vm",
  "set_vm_metadata",
  "delete_disk",
  "has_disk",
  "attach_disk",
  "detach_disk",
  "get_disks",
  "set_disk_metadata",
  "resize_disk",
  "update_disk",
  "snapshot_disk",
  "delete_snapshot",
  "delete_stemcell",
];

describe("the choice of CPIs", () => {
  const cases: [what: string, offer: Offer, given: Wanted, expected: Choice][] = [
    ["create_vm in an az -> the az's", configured, wanted("create_vm", z1), one("left")],
    [
      "create_vm in an az with a former name -> the CPI that had the name",
      configured,
      wanted("create_vm", { az: "z1", azCpi: "old-left" }),
      one("left"),
    ],
    ["create_vm without an az -> the default", configured, wanted("create_vm"), one(DEFAULT_CPI)],
    ["create_vm without an az, adopted -> the adopter", adopted, wanted("create_vm"), one("adopter")],
    ["create_vm, no cpi-config -> the default", own, wanted("create_vm", { az: "z1" }), one(DEFAULT_CPI)],
    [
      "create_vm in an az with one of the dispatcher's CPIs by name",
      own,
      wanted("create_vm", { az: "z1", azCpi: "cell-b" }),
      one("cell-b"),
    ],
    ["create_disk in an az -> the az's", configured, wanted("create_disk", z1), one("left")],
    [
      "create_disk near a VM -> the VM's",
      configured,
      wanted("create_disk", { ...z1, recordedCpi: "right" }),
      one("right"),
    ],
    ["create_disk without an az -> the default", configured, wanted("create_disk"), one(DEFAULT_CPI)],
    ["info of an az -> the az's", configured, wanted("info", z1), one("left")],
    ["info of a CPI by name", configured, wanted("info", { recordedCpi: "right" }), one("right")],
    ["info, nothing said -> the default", own, wanted("info"), one(DEFAULT_CPI)],
    [
      "calculate_vm_cloud_properties of an az -> the az's",
      configured,
      wanted("calculate_vm_cloud_properties", z1),
      one("left"),
    ],
    [
      "create_stemcell -> every CPI that accepts one of its formats",
      configured,
      wanted("create_stemcell", { stemcellFormats: ["aws-light"] }),
      { kind: "every", names: ["right"] },
    ],
    [
      "create_stemcell with unknown formats -> every CPI and the default",
      configured,
      wanted("create_stemcell"),
      { kind: "every", names: ["left", "right", DEFAULT_CPI] },
    ],
    [
      "create_stemcell in a format of the default CPI -> the default",
      configured,
      wanted("create_stemcell", { stemcellFormats: ["fleet-raw"] }),
      { kind: "every", names: [DEFAULT_CPI] },
    ],
    [
      "create_stemcell again, the default has it -> the others",
      configured,
      wanted("create_stemcell", { exceptCpis: [""] }),
      { kind: "every", names: ["left", "right"] },
    ],
    [
      "create_stemcell again, no cpi-config -> not by the default, which has it",
      own,
      wanted("create_stemcell", { exceptCpis: [""] }),
      { kind: "every", names: ["cell-b"] },
    ],
    [
      "create_stemcell -> also a CPI with unknown formats",
      adopted,
      wanted("create_stemcell", { stemcellFormats: ["aws-raw"] }),
      { kind: "every", names: ["right", "adopter"] },
    ],
    [
      "create_stemcell again -> only the CPIs that lack it",
      configured,
      wanted("create_stemcell", { exceptCpis: ["right"] }),
      { kind: "every", names: ["left", DEFAULT_CPI] },
    ],
    [
      "create_stemcell again, recorded under a former name -> not again",
      configured,
      wanted("create_stemcell", { exceptCpis: ["old-left", "right", ""] }),
      { kind: "every", names: [] },
    ],
    [
      "create_stemcell for a CPI by name",
      configured,
      wanted("create_stemcell", { recordedCpi: "right", stemcellFormats: ["x"] }),
      one("right"),
    ],
    [
      "create_stemcell, adopted -> the adopter has the default CPI's stemcell",
      adopted,
      wanted("create_stemcell", { exceptCpis: ["", "left"] }),
      { kind: "every", names: ["right"] },
    ],
    [
      "delete_vm of an unknown id -> all, the default last",
      configured,
      wanted("delete_vm", { unknownId: true }),
      search("left", "right", DEFAULT_CPI),
    ],
    [
      "delete_vm of an unknown id, adopted -> all, the default not twice",
      adopted,
      wanted("delete_vm", { unknownId: true }),
      search("left", "right", "adopter"),
    ],
    [
      "delete_disk of an unknown id, no cpi-config -> all our own, the default first",
      own,
      wanted("delete_disk", { unknownId: true }),
      search(DEFAULT_CPI, "cell-b"),
    ],
    [
      "delete_disk with others -> its recorded CPI first, then the others",
      configured,
      wanted("delete_disk", { askOthers: true, recordedCpi: "right" }),
      search("right", "left", DEFAULT_CPI),
    ],
    [
      "delete_disk of the default CPI with others -> the default first",
      configured,
      wanted("delete_disk", { askOthers: true, ...z1 }),
      search(DEFAULT_CPI, "left", "right"),
    ],
    [
      "delete_snapshot with others, adopted -> the adopter stands for the default",
      adopted,
      wanted("delete_snapshot", { askOthers: true }),
      search("adopter", "left", "right"),
    ],
    [
      "delete_vm with others, no cpi-config -> all our own",
      own,
      wanted("delete_vm", { askOthers: true, recordedCpi: "cell-b" }),
      search("cell-b", DEFAULT_CPI),
    ],
    [
      "a CPI with another object of the id -> not searched, under a former name either",
      configured,
      wanted("delete_vm", { askOthers: true, recordedCpi: "right", exceptCpis: ["old-left"] }),
      search("right", DEFAULT_CPI),
    ],
    [
      "the default CPI with another object of the id -> not searched",
      own,
      wanted("delete_vm", { unknownId: true, exceptCpis: [""] }),
      search("cell-b"),
    ],
    [
      "has_vm with others -> its own alone",
      configured,
      wanted("has_vm", { askOthers: true, recordedCpi: "left" }),
      one("left"),
    ],
    [
      "attach_disk of an unknown id -> no guessing",
      configured,
      wanted("attach_disk", { unknownId: true }),
      one(DEFAULT_CPI),
    ],
    [
      "create_vm knows no unknown ids -> the az's",
      configured,
      wanted("create_vm", { ...z1, unknownId: true }),
      one("left"),
    ],
  ];
  for (const [what, offer, given, expected] of cases)
    it(what, () => {
      expect(chooseCpis(offer, given)).to.deep.equal(expected);
    });

  for (const method of EXISTING) {
    it(`${method} -> the recorded CPI, whatever the az; a former name finds it too`, () => {
      expect(chooseCpis(configured, wanted(method, { ...z1, recordedCpi: "right" }))).to.deep.equal(one("right"));
      expect(chooseCpis(configured, wanted(method, { recordedCpi: "old-left" }))).to.deep.equal(one("left"));
    });
    it(`${method}, none recorded -> the CPI that has the default's objects, whatever the az`, () => {
      expect(chooseCpis(configured, wanted(method, z1))).to.deep.equal(one(DEFAULT_CPI));
      expect(chooseCpis(adopted, wanted(method, z1))).to.deep.equal(one("adopter"));
      expect(chooseCpis(own, wanted(method))).to.deep.equal(one(DEFAULT_CPI));
    });
  }

  const refused: [what: string, offer: Offer, given: Wanted, type: new (...args: never[]) => Error, text: string][] = [
    [
      "a name that no CPI has",
      configured,
      wanted("delete_vm", { recordedCpi: "x" }),
      CpiUnusableError,
      "CPI 'x' not found in cpi-config: there are left, right",
    ],
    [
      "a name, with no cpi-config",
      own,
      wanted("delete_vm", { recordedCpi: "left" }),
      CpiUnusableError,
      "CPI 'left' not found in cpi-config (because cpi-config is not set)",
    ],
    [
      "an az's CPI name that no CPI has",
      configured,
      wanted("create_vm", { az: "z1", azCpi: "x" }),
      CpiUnusableError,
      "CPI 'x' not found",
    ],
    [
      "our own name, beside a cpi-config",
      configured,
      wanted("has_vm", { recordedCpi: "fleet" }),
      CpiUnusableError,
      "CPI 'fleet' not found",
    ],
    [
      "a VM in an az without a CPI, beside a cpi-config",
      configured,
      wanted("create_vm", { az: "z1" }),
      InvalidStateError,
      "AZ 'z1' must specify a CPI when CPI config is defined.",
    ],
    [
      "a disk in an az without a CPI, beside a cpi-config",
      adopted,
      wanted("create_disk", { az: "z1" }),
      InvalidStateError,
      "AZ 'z1' must specify a CPI",
    ],
    [
      "a stemcell of formats that none takes",
      configured,
      wanted("create_stemcell", { stemcellFormats: ["vsphere-ova"] }),
      InvalidStateError,
      "vsphere-ova",
    ],
    [
      "a name that is no name",
      configured,
      wanted("has_vm", { recordedCpi: "a\nb" }),
      CpiUnusableError,
      "CPI 'a\\nb' not found",
    ],
  ];
  for (const [what, offer, given, type, text] of refused)
    it(`${what} -> refused`, () => {
      expect(() => chooseCpis(offer, given)).to.throw(type, text);
    });
});

describe("the names of a cpi-config", () => {
  const check = (...cpis: [name: string, ...migratedFrom: string[]][]) =>
    checkCpiNames(
      cpis.map(([name, ...migratedFrom]) => ({ name, migratedFrom })),
      4,
    );

  it("may be many, with former names, and with the default's objects adopted once", () => {
    check(["a"], ["b", "old-b", "older-b"], ["c.eu-1", ""]);
    check(["a", "a"]);
  });

  const twice: [string, ...string[]][][] = [
    [["a"], ["a"]],
    [["a"], ["b", "a"]],
    [["a", "b"], ["b"]],
    [
      ["a", "x"],
      ["b", "x"],
    ],
    [
      ["a", ""],
      ["b", ""],
    ],
  ];
  for (const cpis of twice)
    it(`name one CPI each, unlike in ${JSON.stringify(cpis)}`, () => {
      expect(() => check(...cpis))
        .to.throw(CpiConfigInvalidError, "Duplicate CPI name")
        .with.nested.property("about.bosh_error_code", "550000");
    });

  const malformed: [string, ...string[]][][] = [
    [],
    [[""]],
    [["../a"]],
    [["a b"]],
    [["a\n"]],
    [["x".repeat(256)]],
    [["a", "../b"]],
    [["a"], ["b"], ["c"], ["d"], ["e"]],
  ];
  for (const cpis of malformed)
    it(`are refused: ${JSON.stringify(cpis).slice(0, 60)}`, () => {
      expect(() => check(...cpis)).to.throw(InvalidArgumentError);
    });
});
