import { fileURLToPath } from "node:url";
import type { Cpi } from "@diskmesh/cpi";
import { MemoryCpi } from "@diskmesh/cpi/testing";
import { InvalidStateError, NotImplementedError, UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import { objectsFile } from "./objects.js";
import { type Finding, tryCpi } from "./trial.js";

const image = fileURLToPath(import.meta.url);

async function findingsOf(
  cpi: Cpi,
  signal = new AbortController().signal,
  objects: object = { stemcell: { image } },
): Promise<readonly Finding[]> {
  const options = { objects: objectsFile.parse(objects), onLogLine: () => undefined, onFinding: () => undefined };
  return tryCpi({ cpi, signal, ...options });
}

/** Returns the findings that are not ok, and the deletions of what was left. */
function troublesIn(findings: readonly Finding[]): string[] {
  return findings
    .filter(({ outcome, title }) => outcome !== "ok" || title.includes("was left"))
    .map(({ outcome, title, detail }) => `${outcome} ${title}: ${detail}`);
}

/** Returns a CPI in memory with some methods replaced. */
function brokenCpi(broken: (cpi: MemoryCpi) => Partial<Cpi>): MemoryCpi {
  const cpi = new MemoryCpi();
  return Object.assign(cpi, broken(new MemoryCpi(cpi.cloud)));
}

const lacking = async (): Promise<never> => {
  throw new NotImplementedError("it lacks the method");
};

describe("a trial of a CPI", () => {
  it("finds nothing wrong with a CPI that keeps the contract, and leaves nothing behind", async () => {
    const cpi = new MemoryCpi();
    const findings = await findingsOf(cpi);
    expect(troublesIn(findings)).to.deep.equal([]);
    expect(findings).to.have.lengthOf(20);
    expect([cpi.cloud.vms.size, cpi.cloud.disks.size, cpi.cloud.stemcells.size]).to.deep.equal([0, 0, 0]);
  });

  /** Methods of a CPI that break the contract, and the beginnings of the findings. */
  const BREAKS: readonly [what: string, broken: (cpi: MemoryCpi) => Partial<Cpi>, found: readonly string[]][] = [
    ["without info", () => ({ info: lacking }), ["FAILED info"]],
    [
      "that finds every VM",
      () => ({ hasVm: async () => ({ exists: true, az: "" }) }),
      ["FAILED has_vm and has_disk", "FAILED delete_vm deletes", "ok vm"],
    ],
    ["that finds no disk", () => ({ hasDisk: async () => false }), ["FAILED create_disk makes"]],
    [
      "without has_disk",
      () => ({ hasDisk: lacking }),
      ["FAILED has_vm and has_disk", "FAILED create_disk makes", "FAILED delete_disk deletes", "ok disk"],
    ],
    [
      "that deletes unknown VMs",
      (cpi) => ({ deleteVm: (cid, call) => cpi.deleteVm(cid, call).catch(() => undefined) }),
      ["differs delete_vm of an unknown VM", "differs delete_vm deletes"],
    ],
    [
      "that deletes unknown disks",
      (cpi) => ({ deleteDisk: (cid, call) => cpi.deleteDisk(cid, call).catch(() => undefined) }),
      ["differs delete_disk of an unknown disk", "differs delete_disk deletes"],
    ],
    [
      "that answers no hint",
      (cpi) => ({ attachDisk: (...args) => cpi.attachDisk(...args).then(() => ({})) }),
      ["FAILED attach_disk answers a hint"],
    ],
    [
      "that answers another hint each time",
      (cpi) => ({ attachDisk: (...args) => cpi.attachDisk(...args).then(() => `/dev/${Math.random()}`) }),
      ["FAILED attach_disk again"],
    ],
    [
      "that attaches nothing twice",
      (cpi) => {
        let isFirst = true;
        return {
          attachDisk: async (...args) => {
            if (!isFirst) throw new InvalidStateError("it is mounted already");
            isFirst = false;
            return cpi.attachDisk(...args);
          },
        };
      },
      ["differs attach_disk again", "differs attach_disk of an unknown disk"],
    ],
    [
      "that detaches what is not attached",
      (cpi) => ({ detachDisk: (...args) => cpi.detachDisk(...args).catch(() => undefined) }),
      ["differs detach_disk"],
    ],
    [
      "that does not attach",
      () => ({ attachDisk: async () => "/dev/sdb" }),
      ["FAILED get_disks lists", "FAILED attach_disk of an unknown disk", "FAILED detach_disk"],
    ],
    [
      "that does not detach",
      () => ({ detachDisk: async () => undefined }),
      ["differs detach_disk", "FAILED delete_disk deletes", "ok disk"],
    ],
    [
      "without what a CPI may lack",
      () => ({
        ...{ resizeDisk: lacking, snapshotDisk: lacking, getDisks: lacking },
        ...{ setVmMetadata: lacking, setDiskMetadata: lacking },
      }),
      ["set_vm_metadata", "set_disk_metadata", "resize_disk", "get_disks", "snapshot_disk"].map((it) => `lacks ${it}`),
    ],
  ];
  for (const [what, broken, found] of BREAKS)
    it(`names what is wrong with a CPI ${what}`, async () => {
      const shown = troublesIn(await findingsOf(brokenCpi(broken)));
      expect(shown).to.have.lengthOf(found.length);
      for (const [at, trouble] of shown.entries()) expect(trouble).to.match(new RegExp(`^${found[at]}`));
    });

  it("leaves out what needs a VM that was not made, and says that its outcome is not known", async () => {
    const crash = new UnavailableError("it crashed", { outcome: "unknown" });
    const [failed, ...others] = troublesIn(
      await findingsOf(brokenCpi(() => ({ createVm: () => Promise.reject(crash) }))),
    );
    expect(failed).to.match(/^FAILED create_vm .*: it crashed; what the CPI has done is not known$/);
    expect(others).to.have.lengthOf(13);
    for (const other of others) expect(other).to.match(/^left out .*: there is no (VM|disk|attached disk)$/);
  });

  it("deletes what a stopped trial has made, the latest first", async () => {
    const stop = new AbortController();
    const cpi = brokenCpi((whole) => ({
      detachDisk: async (...args) => {
        if (stop.signal.aborted) await whole.detachDisk(...args);
        else stop.abort(new Error("stopped"));
      },
    }));
    const findings = await findingsOf(cpi, stop.signal);
    expect(findings.slice(-4).map(({ outcome, title }) => `${outcome} ${title.split(" ", 1)}`)).to.deep.equal([
      "FAILED detach_disk",
      "ok disk",
      "ok vm",
      "ok stemcell",
    ]);
    expect([cpi.cloud.vms.size, cpi.cloud.disks.size, cpi.cloud.stemcells.size]).to.deep.equal([0, 0, 0]);
  });

  it("makes no stemcell without an image, and deletes none that it was given", async () => {
    const none = await findingsOf(new MemoryCpi(), undefined, {});
    expect(troublesIn(none)).to.deep.equal([
      "left out create_stemcell makes a stemcell: the objects file names no stemcell: give its image or its cid",
      "left out delete_stemcell deletes the stemcell: there is no stemcell",
    ]);
    const given = await findingsOf(new MemoryCpi(), undefined, { stemcell: { cid: "sc-9" } });
    expect(troublesIn(given)).to.deep.equal([
      "left out create_stemcell makes a stemcell: the objects file names a stemcell",
      "left out delete_stemcell deletes the stemcell: the objects file names a stemcell, which stays",
    ]);
  });
});
