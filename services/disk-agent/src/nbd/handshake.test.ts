import type { Socket } from "node:net";
import { PassThrough, Writable } from "node:stream";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import fc from "fast-check";
import { ByteReader, ConnectionEndedError } from "./byte-reader.js";
import { openExport } from "./client-handshake.js";
import { greetClient, negotiate } from "./handshake.js";
import {
  decodeInfoRequest,
  decodeOptionReplyHeader,
  encodeDescriptionInfo,
  encodeExportInfo,
  encodeInfoRequest,
  encodeOption,
  encodeOptionReply,
  MAX_OPTION_BYTES,
  OPTION,
  OPTION_REPLY_HEADER_BYTES,
  REPLY,
} from "./protocol.js";

const anyBytes = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));
const pieces = (piece: fc.Arbitrary<Buffer>) => fc.array(piece, { maxLength: 6 }).map((all) => Buffer.concat(all));

describe("the NBD negotiation", () => {
  it("holds the replies of one option while a client sends options faster than it reads", async () => {
    const received = new PassThrough();
    const flags = Buffer.from([0, 0, 0, 1]);
    const list = encodeOption(OPTION.LIST, Buffer.alloc(0));
    received.end(Buffer.concat([flags, ...Array<Buffer>(1_000).fill(list)]));
    const heldBytes: number[] = [];
    const sent = new Writable({
      write(_chunk: Buffer, _encoding, done) {
        heldBytes.push(sent.writableLength);
        setImmediate(done);
      },
    });
    const served = { name: "disk-1", sizeBytes: 4096, blockSizeBytes: 4096 };
    const reader = new ByteReader(received as unknown as Socket);
    const greeting = await greetClient(reader, sent);
    const error = await rejection(negotiate(reader, sent, served, greeting));
    expect(error).to.be.instanceOf(ConnectionEndedError);
    expect(Math.max(sent.writableLength, ...heldBytes)).to.be.below(1_000);
    expect(heldBytes, "the greeting, and the replies to each option").to.have.length(1_001);
  });

  /** Returns a reader of these bytes, and the stream that keeps what is sent. */
  function peerThatSends(bytes: Buffer) {
    const received = new PassThrough();
    received.end(bytes);
    const sent: Buffer[] = [];
    const socket = new Writable({
      write(chunk: Buffer, _encoding, done) {
        sent.push(chunk);
        done();
      },
    });
    return { reader: new ByteReader(received as unknown as Socket), socket: socket as unknown as Socket, sent };
  }

  /** Returns undefined for an error that the protocol foresees, and throws any other. */
  async function outcomeOf<T>(work: Promise<T>): Promise<T | undefined> {
    return work.catch((error: Error) => {
      expect([Error, ConnectionEndedError], error.stack).to.include(error.constructor);
      return undefined;
    });
  }

  it("of any options ends, with a whole reply to each", async () => {
    const infos = fc.array(fc.nat(5), { maxLength: 3 });
    const data = fc.oneof(
      infos.map((wanted) => encodeInfoRequest("", wanted)),
      anyBytes,
    );
    const option = fc.oneof(fc.constantFrom(...Object.values(OPTION)), fc.nat(0xffff_ffff));
    const encoded = fc.tuple(option, data).map(([number, bytes]) => encodeOption(number, bytes));
    await fc.assert(
      fc.asyncProperty(pieces(fc.oneof({ weight: 9, arbitrary: encoded }, anyBytes)), async (bytes) => {
        const { reader, socket, sent } = peerThatSends(bytes);
        const served = { name: "disk-1", sizeBytes: 4096, blockSizeBytes: 4096, description: "d" };
        await outcomeOf(negotiate(reader, socket, served, { noZeroes: true }));
        let left = Buffer.concat(sent);
        // The answer to EXPORT_NAME, always the last one, has no header.
        while (left.length > 10) {
          const { lengthBytes } = decodeOptionReplyHeader(left);
          expect(left.length).to.be.at.least(OPTION_REPLY_HEADER_BYTES + lengthBytes);
          left = left.subarray(OPTION_REPLY_HEADER_BYTES + lengthBytes);
        }
      }),
      { numRuns: 200 },
    );
  });

  it("with a server that sends any replies ends, with the export or an error", async () => {
    const data = fc.oneof(
      anyBytes,
      fc.constantFrom(encodeExportInfo(4096, 1), encodeDescriptionInfo("d"), Buffer.from([0, 0, 1])),
    );
    const type = fc.constantFrom(...Object.values(REPLY));
    const encoded = fc.tuple(type, data).map(([reply, bytes]) => encodeOptionReply(OPTION.GO, reply, bytes));
    await fc.assert(
      fc.asyncProperty(pieces(fc.oneof({ weight: 9, arbitrary: encoded }, anyBytes)), async (bytes) => {
        const { reader, socket } = peerThatSends(bytes);
        const opened = await outcomeOf(openExport(reader, socket, ""));
        if (opened !== undefined) expect(opened.sizeBytes).to.satisfy(Number.isSafeInteger);
      }),
      { numRuns: 200 },
    );
  });

  const malformed: [string, Buffer, RegExp][] = [
    ["information without a type", encodeOptionReply(OPTION.GO, REPLY.INFO), /malformed information of the export: 0/],
    [
      "half a size",
      encodeOptionReply(OPTION.GO, REPLY.INFO, Buffer.alloc(5)),
      /malformed information of the export: 5/,
    ],
    [
      "a size of 2^53",
      encodeOptionReply(OPTION.GO, REPLY.INFO, encodeExportInfo(2 ** 53, 1)),
      /size out of range: 9007199254740992/,
    ],
    [
      "a reply beyond the limit",
      encodeOptionReply(OPTION.GO, REPLY.INFO, Buffer.alloc(MAX_OPTION_BYTES + 1)),
      /a reply of 8193 bytes: the limit is 8192/,
    ],
  ];
  for (const [what, bytes, says] of malformed)
    it(`with a server that sends ${what} fails with the reason`, async () => {
      const { reader, socket } = peerThatSends(bytes);
      await rejection(openExport(reader, socket, ""), Error, says);
    });

  it("reads a request for information as it was written, and none that is cut", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.array(fc.nat(0xffff)), fc.nat(), (exportName, infos, cut) => {
        const written = encodeInfoRequest(exportName, infos);
        expect(decodeInfoRequest(written)).to.deep.equal({ exportName, infos });
        expect(decodeInfoRequest(written.subarray(0, cut % written.length))).to.equal(undefined);
      }),
      { numRuns: 200 },
    );
  });
});
