import { join } from "node:path";
import type { CpiConfig } from "@diskmesh/api/cpi";
import { reasonOfFailed } from "@diskmesh/cpi/testing";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { context, requestsOf, ScriptDispatcher, V2 } from "../testing/script-dispatcher.js";

const error = (type: string) => `{"result":null,"error":{"type":"${type}","message":"m","ok_to_retry":false},"log":""}`;
const result = (value: string) => `{"result":${value},"error":null,"log":""}`;
const NO_METHOD = error("Bosh::Clouds::NotImplemented");
const NO_VM = error("Bosh::Clouds::VMNotFound");
const NO_DISK = error("Bosh::Clouds::DiskNotFound");
const BROKEN = error("Bosh::Clouds::CloudError");
const DONE = result("null");

/** Returns a CPI that records its requests and answers has-methods and delete-methods with these answers. */
const holding = (has: string, remove: string) => `
read -r request
printf '%s\\n' "$request" >> "$0.requests"
case "$request" in
'{"method":"info"'*) echo '${result(V2)}' ;;
'{"method":"has_'*) echo '${has}' ;;
*) echo '${remove}' ;;
esac`;
const WITHOUT = holding(result("false"), NO_VM);
const WITH = holding(result("true"), DONE);

/** Real CPI processes. The dispatcher's default CPI is in memory and has nothing. */
describe("deletions of objects that their CPI does not have", () => {
  const bench = ScriptDispatcher.forEachTest();

  async function offer(scripts: Readonly<Record<string, string>>): Promise<void> {
    await bench.dispatcher.setCpis(
      Object.entries(scripts).map(([name, text]) => bench.dispatcher.scriptCpi(name, text)),
    );
  }
  const methodsOf = (name: string) =>
    requestsOf({ execPath: join(bench.dispatcher.folder, `${name}.sh`) } as CpiConfig)
      .map(({ method }) => method)
      .filter((method) => method !== "info");
  const deleteVm = (more: object) =>
    bench.director.deleteVm({ context: context({ askOthers: true, ...more }), vmCid: "v" });
  const deleteDisk = (more: object) =>
    bench.director.deleteDisk({ context: context({ askOthers: true, ...more }), diskCid: "d" });

  it("the own CPI deletes it -> no other is asked, even if the own says so of everything", async () => {
    await offer({ a: holding(result("false"), DONE), b: WITH });
    await deleteVm({ cpi: "a" });
    expect([methodsOf("a"), methodsOf("b")]).to.deep.equal([["delete_vm"], []]);
  });

  it("the own CPI fails otherwise -> its error, and no other is asked", async () => {
    await offer({ a: holding(BROKEN, BROKEN), b: WITH });
    expect(await reasonOfFailed(deleteVm({ cpi: "a" }))).to.equal("CPI_FAILED");
    expect(methodsOf("b")).to.deep.equal([]);
  });

  it("the caller does not want the others asked -> not found", async () => {
    await offer({ a: WITHOUT, b: WITH });
    expect(await reasonOfFailed(deleteVm({ cpi: "a", askOthers: false }))).to.equal("VM_NOT_FOUND");
    expect(methodsOf("b")).to.deep.equal([]);
  });

  it("another CPI has it -> deleted there alone; a second time -> not found", async () => {
    await offer({ a: WITHOUT, b: WITH, c: holding(result("false"), DONE) });
    await deleteVm({ cpi: "a" });
    expect([methodsOf("b"), methodsOf("c")]).to.deep.equal([["has_vm", "delete_vm"], ["has_vm"]]);
    bench.dispatcher.scriptCpi("b", WITHOUT);
    expect(await reasonOfFailed(deleteVm({ cpi: "a" }))).to.equal("VM_NOT_FOUND");
  });

  it("a disk -> the others are asked by has_disk", async () => {
    await offer({ a: holding(result("false"), NO_DISK), b: WITH });
    await deleteDisk({ cpi: "a" });
    expect(methodsOf("b")).to.deep.equal(["has_disk", "delete_disk"]);
    expect(await reasonOfFailed(deleteDisk({ cpi: "a", exceptCpis: ["b"] }))).to.equal("DISK_NOT_FOUND");
  });

  it("the default CPI has it -> deleted there", async () => {
    await offer({ a: WITHOUT });
    const { vmCid } = await bench.director.createVm({
      context: context(),
      ...{ agentId: "agent", stemcellCid: "s", cloudProperties: {}, networks: {}, diskCids: [], env: {}, az: "" },
    });
    await bench.director.deleteVm({ context: context({ cpi: "a", askOthers: true }), vmCid });
    expect(bench.own.cloud.vms.size).to.equal(0);
  });

  it("two others have it -> nothing is deleted, and both are named", async () => {
    await offer({ a: WITHOUT, b: WITH, c: WITH });
    const failure = await rejection(deleteVm({ cpi: "a" }), Error, "CPI `a` does not have vm v");
    expect(failure.message).to.contain("CPI `b` and CPI `c` have it");
    expect(await reasonOfFailed(deleteVm({ cpi: "a" }))).to.equal("POSSIBLY_ELSEWHERE");
    expect([...methodsOf("b"), ...methodsOf("c")]).to.not.include("delete_vm");
  });

  it("another CPI fails -> unknown, with its error; but another has it -> deleted", async () => {
    await offer({ a: WITHOUT, b: holding(BROKEN, BROKEN), c: WITHOUT });
    const failure = await rejection(deleteVm({ cpi: "a" }), Error, "CPI `b` did not tell");
    expect(failure.message).to.contain("CloudError");
    bench.dispatcher.scriptCpi("c", WITH);
    await deleteVm({ cpi: "a" });
    expect(methodsOf("c").at(-1)).to.equal("delete_vm");
  });

  it("a CPI whose description is wrong, or that crashes -> unknown", async () => {
    await offer({ a: WITHOUT, b: "exit 1" });
    for (const broken of ["exit 1", "kill -9 $$"]) {
      bench.dispatcher.scriptCpi("b", broken);
      expect(await reasonOfFailed(deleteVm({ cpi: "a" })), broken).to.equal("POSSIBLY_ELSEWHERE");
    }
  });

  it("another CPI has it and fails to delete it -> its error, so that a repetition may succeed", async () => {
    await offer({ a: WITHOUT, b: holding(result("true"), BROKEN) });
    expect(await reasonOfFailed(deleteVm({ cpi: "a" }))).to.equal("CPI_FAILED");
    bench.dispatcher.scriptCpi("b", WITH);
    await deleteVm({ cpi: "a" });
  });

  it("a CPI without has_vm -> deletes, or denies", async () => {
    await offer({ a: WITHOUT, b: holding(NO_METHOD, NO_VM), c: holding(NO_METHOD, DONE) });
    await deleteVm({ cpi: "a" });
    expect(methodsOf("c")).to.deep.equal(["has_vm", "delete_vm"]);
    bench.dispatcher.scriptCpi("c", holding(NO_METHOD, NO_METHOD));
    expect(await reasonOfFailed(deleteVm({ cpi: "a" }))).to.equal("VM_NOT_FOUND");
  });

  it("a snapshot -> every other deletes, since none can say whether it has the snapshot", async () => {
    await offer({ a: holding(NO_METHOD, NO_DISK), b: holding(NO_METHOD, DONE), c: holding(NO_METHOD, NO_DISK) });
    const remove = () =>
      bench.director.deleteSnapshot({ context: context({ cpi: "a", askOthers: true }), snapshotCid: "s" });
    await remove();
    expect([methodsOf("b"), methodsOf("c")]).to.deep.equal([["delete_snapshot"], ["delete_snapshot"]]);
    bench.dispatcher.scriptCpi("c", holding(NO_METHOD, BROKEN));
    expect(await reasonOfFailed(remove())).to.equal("POSSIBLY_ELSEWHERE");
  });

  it("nothing is recorded about the id -> all are searched in the same way", async () => {
    await offer({ a: WITHOUT, b: WITHOUT });
    const unknown = () => deleteVm({ unknownId: true, askOthers: false });
    expect(await reasonOfFailed(unknown())).to.equal("VM_NOT_FOUND");
    bench.dispatcher.scriptCpi("b", WITH);
    await unknown();
    bench.dispatcher.scriptCpi("a", holding(result("true"), DONE));
    expect(await reasonOfFailed(unknown())).to.equal("POSSIBLY_ELSEWHERE");
  });
});
