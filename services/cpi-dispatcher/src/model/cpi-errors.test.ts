import {
  type DomainError,
  InvalidStateError,
  NotFoundError,
  NotImplementedError,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import { expect } from "chai";
import { type CpiError, errorOfCpi } from "./cpi-errors.js";
import type { CpiMethod } from "./methods.js";

const call = (method: CpiMethod) => ({ cpi: "left", method, requestId: "cpi-123456", vmCid: "v1", diskCid: "d1" });
const error = (type: string, fields: Partial<CpiError> = {}): CpiError => ({
  type,
  message: "boom",
  okToRetry: false,
  ...fields,
});

describe("an error of a CPI", () => {
  type ErrorClass = abstract new (...args: never[]) => DomainError;
  const known: [type: string, general: ErrorClass, name: string, keepsOkToRetry: boolean][] = [
    ["CpiError", InvalidStateError, "CpiFailedError", false],
    ["NotSupported", NotImplementedError, "NotSupportedError", false],
    ["NotImplemented", NotImplementedError, "NotImplementedError", false],
    ["CloudError", InvalidStateError, "CpiFailedError", false],
    ["VMNotFound", NotFoundError, "VmNotFoundError", false],
    ["NetworkNotFound", NotFoundError, "NetworkNotFoundError", false],
    ["NoDiskSpace", ResourceExhaustedError, "NoDiskSpaceError", true],
    ["DiskNotAttached", InvalidStateError, "DiskNotAttachedError", true],
    ["DiskNotFound", NotFoundError, "DiskNotFoundError", true],
    ["VMCreationFailed", InvalidStateError, "VmCreationFailedError", true],
  ];
  for (const [type, general, name, keepsOkToRetry] of known)
    it(`of type ${type} -> ${name}`, () => {
      const made = errorOfCpi(error(`Bosh::Clouds::${type}`), call("create_vm"));
      expect(made).to.be.instanceOf(general).with.property("name", name);
      expect(made.message).to.equal(
        `CPI error 'Bosh::Clouds::${type}' with message 'boom' in 'create_vm' CPI method (CPI request ID: 'cpi-123456')`,
      );
      expect(made.about).to.include({ cpi: "left", cpi_error_type: `Bosh::Clouds::${type}`, ok_to_retry: "false" });
      expect(made.retryAfterMs).to.equal(undefined);
      const retriable = errorOfCpi(error(`Bosh::Clouds::${type}`, { okToRetry: true }), call("create_vm"));
      expect(retriable.about.ok_to_retry).to.equal(String(keepsOkToRetry));
      expect(retriable.retryAfterMs !== undefined).to.equal(keepsOkToRetry);
    });

  for (const type of ["Unknown", "VMNotFound", "Bosh::Clouds::AttachDiskResponseError", "Bosh::Clouds::toString", ""])
    it(`of type '${type}' -> unknown, with its own message`, () => {
      const made = errorOfCpi(error(type), call("has_vm"));
      expect(made).to.have.property("name", "CpiFailedError");
      expect(made.message).to.equal(
        `Unknown CPI error '${type}' with message 'boom' in 'has_vm' CPI method (CPI request ID: 'cpi-123456')`,
      );
    });

  for (const [type, message, isNotImplemented] of [
    ["InvalidCall", "Method is not known, got 'info'", true],
    ["Bosh::Clouds::CloudError", "Invalid Method: info", true],
    ["InvalidCall", "Arguments are not correct", false],
    ["Bosh::Clouds::CloudError", "Method is not known, got 'info'", false],
    ["Bosh::Clouds::CpiError", "Invalid Method: info", false],
  ] as const)
    it(`${type} '${message}' is ${isNotImplemented ? "" : "not "}NotImplemented`, () => {
      expect(errorOfCpi(error(type, { message }), call("info")) instanceof NotImplementedError).to.equal(
        isNotImplemented,
      );
    });

  it("names the objects of the call, if any", () => {
    expect(errorOfCpi(error("x"), call("attach_disk")).about).to.include({ vm_cid: "v1", disk_cid: "d1" });
    const about = errorOfCpi(error("x"), { ...call("info"), vmCid: "", diskCid: "" }).about;
    expect(about).to.not.have.any.keys("vm_cid", "disk_cid");
  });
});
