import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import fc from "fast-check";
import {
  decodeReply,
  decodeRequest,
  encodeReply,
  encodeRequest,
  MAX_PAYLOAD_BYTES,
  truncateMiddle,
} from "./envelope.js";
import { redactedArguments, redactorOf } from "./redaction.js";

const text = (data: Uint8Array) => Buffer.from(data).toString("utf8");
/** Compares as JSON, which has no -0. */
const json = (value: unknown) => JSON.stringify(value);
const data = (value: unknown) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value));

describe("a request", () => {
  const request = {
    method: "ping",
    args: [1, { a: "b" }],
    replyTo: "director.d.a.r",
    traceHeaders: { traceparent: "00-1" },
    answerWithinMs: 50,
  };

  it("is encoded as the protocol's envelope", () => {
    expect(JSON.parse(text(encodeRequest(request)))).to.deep.equal({
      protocol: 3,
      method: "ping",
      arguments: [1, { a: "b" }],
      reply_to: "director.d.a.r",
      traceparent: "00-1",
      answer_within_ms: 50,
    });
    expect(decodeRequest(encodeRequest(request))).to.deep.equal(request);
  });

  it("may lack arguments and have unknown keys", () => {
    const decoded = decodeRequest(data({ method: "ping", reply_to: "r", certs: {}, tracestate: 5 }));
    expect(decoded).to.deep.equal({ method: "ping", args: [], replyTo: "r", traceHeaders: {}, answerWithinMs: 0 });
  });

  for (const [sent, withinMs] of [
    ["soon", 0],
    [-1, 0],
    [1e9, 1e9],
  ] as const)
    it(`decodes answer_within_ms ${sent} as ${withinMs}`, () => {
      const decoded = decodeRequest(data({ method: "ping", reply_to: "r", answer_within_ms: sent }));
      expect(decoded.answerWithinMs).to.equal(withinMs);
    });

  it("above 1 MiB is refused", () => {
    expect(() => encodeRequest({ ...request, args: ["x".repeat(MAX_PAYLOAD_BYTES)] })).to.throw(
      InvalidArgumentError,
      "1048576",
    );
  });

  for (const bad of [
    "",
    "{",
    "[]",
    "null",
    '"x"',
    { method: "ping" },
    { reply_to: "r" },
    { method: 5, reply_to: "r" },
    { method: "a b", reply_to: "r" },
    { method: { toString: 1, valueOf: 1 }, reply_to: "r" },
    { method: "ping", reply_to: "r", arguments: {} },
  ])
    it(`is never decoded from ${JSON.stringify(bad)}`, () => {
      expect(() => decodeRequest(data(bad))).to.throw(InvalidArgumentError);
    });
});

/** Any bytes, any JSON, and envelopes whose keys have any values. */
const anyEnvelope = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc.json().map(data),
  fc
    .record(
      {
        method: fc.oneof(fc.constant("ping"), fc.jsonValue()),
        arguments: fc.jsonValue(),
        reply_to: fc.oneof(fc.string(), fc.jsonValue()),
        answer_within_ms: fc.jsonValue(),
        traceparent: fc.jsonValue(),
        value: fc.jsonValue(),
        exception: fc.oneof(fc.record({ message: fc.jsonValue() }), fc.jsonValue()),
      },
      { requiredKeys: [] },
    )
    .map(data),
);

describe("any message", () => {
  for (const [what, decode] of [
    ["a request", decodeRequest],
    ["a reply", decodeReply],
  ] as const)
    it(`is ${what} that is encoded and decoded again, or is refused`, () => {
      fc.assert(
        fc.property(anyEnvelope, (bytes) => {
          let decoded: ReturnType<typeof decode>;
          try {
            decoded = decode(bytes);
          } catch (error) {
            expect(error).to.be.instanceOf(InvalidArgumentError);
            return;
          }
          const encoded = "method" in decoded ? encodeRequest(decoded) : encodeReply(decoded);
          expect(json(decode(encoded))).to.equal(json(decoded));
        }),
        { numRuns: 200 },
      );
    });
});

describe("a reply", () => {
  it("holds a value or an exception", () => {
    expect(text(encodeReply({ value: { a: 1 } }))).to.equal('{"value":{"a":1}}');
    expect(text(encodeReply({ value: undefined }))).to.equal('{"value":null}');
    expect(text(encodeReply({ exception: "no" }))).to.equal('{"exception":{"message":"no"}}');
    expect(decodeReply(data('{"value":null}'))).to.deep.equal({ value: null });
    expect(decodeReply(data('{"exception":{"message":"no","backtrace":[]}}'))).to.deep.equal({ exception: "no" });
    const noText = '{"toString":1,"valueOf":1}';
    expect(decodeReply(data(`{"exception":{"message":${noText}}}`))).to.deep.equal({ exception: noText });
  });

  for (const bad of ["", "null", "{}", '{"exception":"no"}'])
    it(`is never decoded from ${JSON.stringify(bad)}`, () => {
      expect(() => decodeReply(data(bad))).to.throw(InvalidArgumentError);
    });

  it("with a value above 1 MiB becomes an exception", () => {
    const encoded = encodeReply({ value: "x".repeat(MAX_PAYLOAD_BYTES) });
    expect(text(encoded)).to.equal('{"exception":{"message":"Response exceeded maximum allowed length"}}');
  });

  it("of exactly 1 MiB is sent", () => {
    const frame = '{"value":""}'.length;
    expect(encodeReply({ value: "x".repeat(MAX_PAYLOAD_BYTES - frame) }).length).to.equal(MAX_PAYLOAD_BYTES);
  });

  for (const character of ["x", '"', "\u0001", "é"])
    it(`with a long exception of ${JSON.stringify(character)} loses its middle and fits`, () => {
      const encoded = encodeReply({ exception: `head ${character.repeat(2 * MAX_PAYLOAD_BYTES)} tail` });
      expect(encoded.length)
        .to.be.at.most(MAX_PAYLOAD_BYTES)
        .and.at.least(MAX_PAYLOAD_BYTES / 2);
      expect(decodeReply(encoded))
        .to.have.property("exception")
        .that.matches(/^head .*\.\.\.\[truncated\]\.\.\..* tail$/su);
    });
});

describe("truncateMiddle", () => {
  it("keeps a short text, and both ends of a long one", () => {
    expect(truncateMiddle("abc", 3)).to.equal("abc");
    expect(truncateMiddle("0123456789".repeat(10), 23)).to.equal("012...[truncated]...789");
  });
});

describe("redaction", () => {
  it("hides secrets from log lines and keeps the rest", () => {
    expect(redactedArguments("upload_blob", [{ blob_id: "b", checksum: "c", payload: "p" }])).to.deep.equal([
      { blob_id: "b", checksum: "<redacted>", payload: "<redacted>" },
    ]);
    expect(redactedArguments("update_settings", [{ mbus: { urls: [] }, trusted_certs: "t" }, 2])).to.deep.equal([
      { mbus: "<redacted>", trusted_certs: "t" },
      2,
    ]);
    const hint = { path: "/dev/sdb", iscsi_settings: { password: "hidden" } };
    for (const method of ["add_persistent_disk", "add_dynamic_disk", "mount_disk"])
      expect(redactedArguments(method, ["cid", hint, 3])).to.deep.equal(["cid", "<redacted>", 3]);
    expect(redactedArguments("add_dynamic_disk", ["cid", null])).to.deep.equal(["cid", null]);
    expect(redactedArguments("ping", ["x"])).to.deep.equal(["x"]);
    expect(redactedArguments("upload_blob", [null])).to.deep.equal([null]);
    expect(redactedArguments("constructor", [{}])).to.deep.equal([{}]);
  });

  const SAID: [string, string, unknown[], string, string][] = [
    [
      "a password of a hint",
      "add_persistent_disk",
      ["cid", { iscsi: { password: "pa55" } }],
      "login pa55!",
      "login <redacted>!",
    ],
    ["the path of a hint", "add_persistent_disk", ["cid", { path: "/dev/sdb" }], "no /dev/sdb", "no /dev/sdb"],
    ["a hint that is a text", "add_dynamic_disk", ["cid", "rbd:key=pa55"], "at rbd:key=pa55", "at <redacted>"],
    ["a secret in Base64", "add_dynamic_disk", ["cid", { a: "pa55-word" }], "cGE1NS13b3Jk", "<redacted>"],
    ["a number", "add_dynamic_disk", ["cid", { pin: 775_533 }], "not 775533", "not <redacted>"],
    ["a secret like a path", "mount_disk", ["cid", { path: "/dev/sdb", key: "/pa55" }], "/pa55", "<redacted>"],
    [
      "a url of settings",
      "update_settings",
      [{ mbus: { urls: ["nats://u:p@h"] } }],
      "bad nats://u:p@h",
      "bad <redacted>",
    ],
    ["a short value", "add_persistent_disk", ["cid", { lun: "1" }], "disk 1 of 12", "disk 1 of 12"],
    ["the cid", "add_persistent_disk", ["cid-1", { id: "cid-2" }], "no cid-1", "no cid-1"],
    ["no hint", "mount_disk", ["cid"], "no cid", "no cid"],
    ["another method", "ping", ["pa55", "pa55"], "pa55", "pa55"],
  ];
  for (const [what, method, args, said, shown] of SAID)
    it(`redacts an agent's text that repeats ${what}: ${shown}`, () => {
      expect(redactorOf(method, args).text(said)).to.equal(shown);
    });
});
