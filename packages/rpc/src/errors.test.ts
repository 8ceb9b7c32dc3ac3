import { BadRequest, RetryInfo, Status } from "@diskmesh/api/google-rpc";
import * as domain from "@diskmesh/domain";
import { type DomainError, messageOf } from "@diskmesh/domain";
import { identityOfAlternativeNames } from "@diskmesh/tls";
import { Metadata, status } from "@grpc/grpc-js";
import { expect } from "chai";
import { errorOfStatus } from "./errors/error-of-status.js";
import { decodeStatusDetails, encodeStatusDetails } from "./errors/google-rpc.js";
import { statusOfError } from "./errors/status-of-error.js";

type ErrorClass = new (message: string, details?: domain.ErrorDetails) => DomainError;

const CODES: Record<string, status> = {
  InvalidArgumentError: status.INVALID_ARGUMENT,
  NotFoundError: status.NOT_FOUND,
  AlreadyExistsError: status.ALREADY_EXISTS,
  InvalidStateError: status.FAILED_PRECONDITION,
  PermissionDeniedError: status.PERMISSION_DENIED,
  UnauthenticatedError: status.UNAUTHENTICATED,
  ResourceExhaustedError: status.RESOURCE_EXHAUSTED,
  UnavailableError: status.UNAVAILABLE,
  DiskFullError: status.UNAVAILABLE,
  AbortedError: status.ABORTED,
  OutdatedError: status.FAILED_PRECONDITION,
  FencedError: status.UNAVAILABLE,
  TimeoutError: status.DEADLINE_EXCEEDED,
  CancelledError: status.CANCELLED,
  NotImplementedError: status.UNIMPLEMENTED,
  DeviceIoError: status.INTERNAL,
  DriverError: status.INTERNAL,
};

const where = { method: "/a.B/C", address: "127.0.0.1:1" };

describe("statusOfError and errorOfStatus", () => {
  const classes = Object.entries(domain).filter(([name]) => /^[A-Z].*Error$/.test(name) && name !== "DomainError");

  it("know every error of the domain", () => {
    expect(classes.map(([name]) => name)).to.have.members(Object.keys(CODES));
  });

  for (const [name, type] of classes)
    it(`convert ${name} to ${status[CODES[name] as status]} and back`, () => {
      const about = { host_id: "host-1", field: "ü" };
      const thrown = new (type as ErrorClass)("what was wrong", { about, retryAfterMs: 61_250 });
      const answer = statusOfError(thrown, "r-1");
      expect(answer.code).to.equal(CODES[name]);
      const error = errorOfStatus({ ...where, ...answer, sent: true });
      // The client must not step down because the server was fenced, and the server's full disk is not the client's.
      expect(error.name).to.equal(["FencedError", "DiskFullError"].includes(name) ? "UnavailableError" : name);
      expect(error).to.deep.include({ message: thrown.message, about, retryAfterMs: 61_250 });
      expect(error.outcome).to.equal(thrown.outcome);
      expect(error.retryable).to.equal(thrown.retryable);
    });

  it("convert passing errors of Node and drivers to other codes than INTERNAL, without their text, as outcome unknown", () => {
    const coded = (code: string) => Object.assign(new Error("password=x"), { code });
    const named = (name: string) => Object.assign(new Error("password=x"), { name });
    const rows: readonly (readonly [unknown, status, string])[] = [
      [coded("ENOSPC"), status.UNAVAILABLE, "DISK_FULL"],
      [coded("EMFILE"), status.UNAVAILABLE, "UNAVAILABLE"],
      [coded("ECONNRESET"), status.UNAVAILABLE, "UNAVAILABLE"],
      [named("MongoNetworkError"), status.UNAVAILABLE, "UNAVAILABLE"],
      [named("NoRespondersError"), status.UNAVAILABLE, "UNAVAILABLE"],
      [named("AbortError"), status.CANCELLED, "CANCELLED"],
    ];
    for (const [thrown, code, reason] of rows) {
      const answer = statusOfError(thrown, "r-1");
      expect(answer.code).to.equal(code);
      expect(answer.details).to.contain("r-1").and.not.contain("password");
      const error = errorOfStatus({ ...where, ...answer, sent: true });
      expect(error.outcome).to.equal("unknown");
      const [bytes] = answer.metadata.get("grpc-status-details-bin");
      expect(decodeStatusDetails(bytes as Buffer).errorInfo?.reason).to.equal(reason);
    }
  });

  it("convert anything else to INTERNAL without its text", () => {
    const mistakes = [new TypeError("password=x"), Object.assign(new Error("password=x"), { code: "EINVAL" })];
    for (const thrown of [new Error("password=x"), "password=x", undefined, ...mistakes]) {
      const answer = statusOfError(thrown, "r-1");
      expect(answer.code).to.equal(status.INTERNAL);
      expect(answer.details).to.contain("r-1").and.not.contain("password");
    }
  });

  it("shorten long texts and many details to fit into headers", () => {
    const about = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`key_${index}`, "v".repeat(10_000)]));
    const wrong = new domain.InvalidArgumentError("x".repeat(100_000), { about: { field: "a", ...about } });
    for (const error of [new domain.NotFoundError("x".repeat(100_000), { about }), wrong]) {
      const answer = statusOfError(error, "r-1");
      const [bytes] = answer.metadata.get("grpc-status-details-bin");
      expect(answer.details.length + (bytes as Buffer).length).to.be.lessThan(10_000);
    }
  });

  it("send google.rpc.BadRequest with the field of an InvalidArgumentError, and of no other error", () => {
    const about = { field: "host_id" };
    const violationsOf = (error: DomainError) => {
      const [bytes] = statusOfError(error, "r-1").metadata.get("grpc-status-details-bin");
      const details = Status.decode(bytes as Buffer).details.filter(({ typeUrl }) => typeUrl.endsWith(".BadRequest"));
      return details.flatMap(({ value }) => BadRequest.decode(value).fieldViolations);
    };
    const violation = { field: "host_id", description: "host_id is empty", reason: "", localizedMessage: undefined };
    expect(violationsOf(new domain.InvalidArgumentError("host_id is empty", { about }))).to.deep.equal([violation]);
    expect(violationsOf(new domain.InvalidArgumentError("it is empty"))).to.deep.equal([]);
    expect(violationsOf(new domain.NotFoundError("host_id is not there", { about }))).to.deep.equal([]);
  });

  const strangers: readonly [string, status, boolean, string, string][] = [
    ["no connection", status.UNAVAILABLE, false, "UnavailableError", "not_done"],
    ["connection lost", status.UNAVAILABLE, true, "UnavailableError", "unknown"],
    ["a bug in the server", status.INTERNAL, true, "UnavailableError", "unknown"],
    ["unknown", status.UNKNOWN, true, "UnavailableError", "unknown"],
    ["deadline", status.DEADLINE_EXCEEDED, true, "TimeoutError", "unknown"],
    ["no such method", status.UNIMPLEMENTED, true, "NotImplementedError", "not_done"],
    ["message too long", status.RESOURCE_EXHAUSTED, true, "ResourceExhaustedError", "unknown"],
  ];
  for (const [cause, code, sent, name, outcome] of strangers)
    it(`convert ${status[code]} without our details (${cause}) to ${name}, ${outcome}`, () => {
      const error = errorOfStatus({ ...where, code, sent, details: "why", metadata: new Metadata() });
      expect(error.name).to.equal(name);
      expect(error.outcome).to.equal(outcome);
      expect(messageOf(error)).to.equal("/a.B/C at 127.0.0.1:1: why");
    });

  it("ignore details that are no protobuf or of another domain", () => {
    for (const bytes of [
      Buffer.from([10, 200, 1]),
      encodeStatusDetails({ code: 5, message: "", errorInfo: { reason: "NOT_FOUND", domain: "other", metadata: {} } }),
    ]) {
      const metadata = new Metadata();
      metadata.set("grpc-status-details-bin", Buffer.from(bytes));
      const error = errorOfStatus({ ...where, code: status.ABORTED, sent: true, details: "why", metadata });
      expect(error.name).to.equal("AbortedError");
    }
  });

  it("convert a special case of a general error to that error, and keep and pass on the reason", () => {
    class VmNotFoundError extends domain.NotFoundError {
      override readonly reason = "VM_NOT_FOUND";
    }
    const error = errorOfStatus({ ...where, ...statusOfError(new VmNotFoundError("gone"), "r-1"), sent: true });
    expect(error).to.be.instanceOf(domain.NotFoundError).and.include({ reason: "VM_NOT_FOUND" });
    expect(errorOfStatus({ ...where, ...statusOfError(error, "r-2"), sent: true }).reason).to.equal("VM_NOT_FOUND");
  });

  it("read a reason of a later version, or of another code, as the general error's own", () => {
    for (const reason of ["DISK_ON_FIRE", "QUEUE_FULL"]) {
      const metadata = new Metadata();
      const errorInfo = { reason, domain: "diskmesh", metadata: {} };
      const bytes = encodeStatusDetails({ code: status.NOT_FOUND, message: "", errorInfo });
      metadata.set("grpc-status-details-bin", Buffer.from(bytes));
      const error = errorOfStatus({ ...where, code: status.NOT_FOUND, sent: true, details: "why", metadata });
      expect(error).to.be.instanceOf(domain.NotFoundError).and.include({ reason: "NOT_FOUND" });
    }
  });

  it("send RetryInfo with every UNAVAILABLE, and with others whose delay is known", () => {
    const retryOf = (error: DomainError) => {
      const [bytes] = statusOfError(error, "r-1").metadata.get("grpc-status-details-bin");
      return decodeStatusDetails(bytes as Buffer).retryAfterMs;
    };
    expect(retryOf(new domain.UnavailableError("away"))).to.equal(200);
    expect(retryOf(new domain.FencedError("fenced"))).to.equal(200);
    expect(retryOf(new domain.UnavailableError("away", { retryAfterMs: 7_000 }))).to.equal(7_000);
    expect(retryOf(new domain.AbortedError("start over"))).to.equal(undefined);
  });

  it("keep times exact in google.rpc.RetryInfo", () => {
    for (const retryAfterMs of [0, 1, 999, 1000, 1250, 3_600_000])
      expect(decodeStatusDetails(encodeStatusDetails({ code: 1, message: "m", retryAfterMs })).retryAfterMs).to.equal(
        retryAfterMs,
      );
    // Nanoseconds must be less than a second, because readers refuse the whole detail otherwise.
    const rounded = Status.decode(encodeStatusDetails({ code: 1, message: "m", retryAfterMs: 1_999.7 }));
    expect(RetryInfo.decode(rounded.details[0]?.value ?? Buffer.of()).retryDelay).to.deep.equal({
      seconds: 2,
      nanos: 0,
    });
  });

  // Bytes as written by Python's googleapis-common-protos.
  const ANY = (type: string) => Buffer.from(`type.googleapis.com/google.rpc.${type}`).toString("hex");
  const HEAD = "080912076275737920c3a4";
  const DEBUG_INFO = `1a2f0a28${ANY("DebugInfo")}1203120178`;
  const ERROR_INFO = `1a550a28${ANY("ErrorInfo")}12290a0d494e56414c49445f535441544512086469736b6d6573681a0e0a07686f73745f69641203682d31`;
  const RETRY_INFO = `1a350a28${ANY("RetryInfo")}12090a0708011080e59a77`;
  const details = {
    code: 9,
    message: "busy ä",
    errorInfo: { reason: "INVALID_STATE", domain: "diskmesh", metadata: { host_id: "h-1" } },
    retryAfterMs: 1_250,
  };

  it("match the bytes of other implementations", () => {
    expect(Buffer.from(encodeStatusDetails(details)).toString("hex")).to.equal(HEAD + ERROR_INFO + RETRY_INFO);
  });

  it("are found among unknown details", () => {
    const bytes = Buffer.from(HEAD + DEBUG_INFO + RETRY_INFO + ERROR_INFO, "hex");
    expect(decodeStatusDetails(bytes)).to.deep.equal(details);
  });
});

describe("identityOfAlternativeNames", () => {
  const cases: readonly [string, string | undefined, unknown][] = [
    ["one URI", "URI:spiffe://diskmesh/director", { role: "director", name: "" }],
    [
      "among other names",
      "DNS:localhost, URI:spiffe://diskmesh/disk-agent/host-1, IP Address:127.0.0.1",
      { role: "disk-agent", name: "host-1" },
    ],
    ["no names", undefined, undefined],
    ["no URI", "DNS:localhost", undefined],
    ["an unknown role", "URI:spiffe://diskmesh/root", undefined],
    ["another trust domain", "URI:spiffe://other/director", undefined],
    ["two identities", "URI:spiffe://diskmesh/director, URI:spiffe://diskmesh/operator", undefined],
    ["a foreign URI beside ours", "URI:https://x/, URI:spiffe://diskmesh/operator", undefined],
    ["a URI inside a quoted DNS name", 'DNS:"a, URI:spiffe://diskmesh/director"', undefined],
    ["a quoted URI", 'URI:"spiffe://diskmesh/director, x"', undefined],
    ["a broken quote", 'DNS:"a, URI:spiffe://diskmesh/director', undefined],
  ];
  for (const [what, names, identity] of cases)
    it(`${what} -> ${identity ? JSON.stringify(identity) : "no identity"}`, () => {
      expect(identityOfAlternativeNames(names)).to.deep.equal(identity);
    });
});
