import type { Writable } from "node:stream";
import type { ByteReader } from "./byte-reader.js";
import {
  decodeInfoRequest,
  decodeOptionHeader,
  encodeBlockSizeInfo,
  encodeDescriptionInfo,
  encodeExportInfo,
  encodeGreeting,
  encodeOptionReply,
  HANDSHAKE,
  INFO,
  MAX_OPTION_BYTES,
  MAX_REQUEST_BYTES,
  OPTION,
  OPTION_HEADER_BYTES,
  REPLY,
  TRANSMISSION,
} from "./protocol.js";

/** The export that a socket offers. */
export interface NbdExport {
  readonly name: string;
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  /** Text that clients may ask for; undefined for none. */
  readonly description?: string;
  /** True when a new connection ends the former one, so that a client must not open several. */
  readonly isExclusive?: boolean;
  /** True when writes are refused. */
  readonly isReadOnly?: boolean;
}

/** Flags of the client's greeting. */
export interface ClientGreeting {
  readonly noZeroes: boolean;
}

/** Sends the server's greeting, and reads the client's. Throws on malformed input. */
export async function greetClient(reader: ByteReader, socket: Writable): Promise<ClientGreeting> {
  socket.write(encodeGreeting());
  const clientFlags = (await reader.read(4)).readUInt32BE(0);
  if ((clientFlags & ~(HANDSHAKE.FIXED_NEWSTYLE | HANDSHAKE.NO_ZEROES)) !== 0)
    throw new Error(`the client sent unknown flags ${clientFlags}`);
  return { noZeroes: (clientFlags & HANDSHAKE.NO_ZEROES) !== 0 };
}

/**
 * Answers the options before TLS. Returns true once the client may begin the TLS handshake, false when it left. Refuses
 * all options but STARTTLS, so that nobody without the key learns anything of the export.
 */
export async function awaitStartTls(reader: ByteReader, socket: Writable): Promise<boolean> {
  for (;;) {
    const { option, data } = await readOption(reader);
    // EXPORT_NAME has no error reply, so the connection is closed.
    if (option === OPTION.EXPORT_NAME) throw new Error("the client asked for an export before it started TLS");
    if (option === OPTION.ABORT) {
      socket.write(encodeOptionReply(option, REPLY.ACK));
      return false;
    }
    const isStart = option === OPTION.STARTTLS;
    const reply = !isStart ? REPLY.ERR_TLS_REQD : data.length > 0 ? REPLY.ERR_INVALID : REPLY.ACK;
    await written(socket, encodeOptionReply(option, reply));
    if (reply === REPLY.ACK) return true;
  }
}

/**
 * Answers the options of a greeted client. Returns true when the transmission phase begins, false when the client left.
 * Throws on malformed input.
 */
export async function negotiate(
  reader: ByteReader,
  socket: Writable,
  served: NbdExport,
  { noZeroes }: ClientGreeting,
): Promise<boolean> {
  for (;;) {
    const { option, data } = await readOption(reader);
    if (option === OPTION.EXPORT_NAME) {
      // EXPORT_NAME has no error reply, so the connection is closed.
      if (!isServed(data.toString(), served))
        throw new Error(`the client asked for an export other than ${served.name}, the only one of this socket`);
      socket.write(oldExportReply(served, noZeroes));
      return true;
    }
    if (option === OPTION.ABORT) {
      socket.write(encodeOptionReply(option, REPLY.ACK));
      return false;
    }
    const replies = answerOption(option, data, served);
    // Waits for the replies before reading the next option. Otherwise the replies to a client that reads nothing would
    // fill the memory.
    await written(socket, Buffer.concat(replies.map((reply) => encodeOptionReply(option, reply.type, reply.data))));
    if (option === OPTION.GO && replies.at(-1)?.type === REPLY.ACK) return true;
  }
}

async function readOption(reader: ByteReader): Promise<{ readonly option: number; readonly data: Buffer }> {
  const { option, lengthBytes } = decodeOptionHeader(await reader.read(OPTION_HEADER_BYTES));
  if (lengthBytes > MAX_OPTION_BYTES)
    throw new Error(`the client sent option ${option} with ${lengthBytes} bytes: the limit is ${MAX_OPTION_BYTES}`);
  return { option, data: await reader.read(lengthBytes) };
}

/** Resolves once the kernel has taken the data, or the connection has ended. */
function written(socket: Writable, data: Buffer): Promise<void> {
  return new Promise((resolve) => {
    socket.write(data, () => resolve());
  });
}

interface OptionReply {
  readonly type: number;
  readonly data?: Buffer;
}

function answerOption(option: number, data: Buffer, served: NbdExport): OptionReply[] {
  switch (option) {
    case OPTION.LIST:
      if (data.length > 0) return [refusal(REPLY.ERR_INVALID, "LIST takes no data")];
      return [{ type: REPLY.SERVER, data: exportEntry(served.name) }, { type: REPLY.ACK }];
    case OPTION.INFO:
    case OPTION.GO: {
      const request = decodeInfoRequest(data);
      if (!request) return [refusal(REPLY.ERR_INVALID, "the request for information is malformed")];
      if (!isServed(request.exportName, served))
        return [refusal(REPLY.ERR_UNKNOWN, `this socket serves the export ${served.name} alone`)];
      return [
        { type: REPLY.INFO, data: encodeExportInfo(served.sizeBytes, transmissionFlags(served)) },
        // Minimum 1, because the agent reads and writes single bytes; preferred is the disk's block size.
        { type: REPLY.INFO, data: encodeBlockSizeInfo(1, served.blockSizeBytes, MAX_REQUEST_BYTES) },
        ...(served.description !== undefined && request.infos.includes(INFO.DESCRIPTION)
          ? [{ type: REPLY.INFO, data: encodeDescriptionInfo(served.description) }]
          : []),
        { type: REPLY.ACK },
      ];
    }
    default:
      return [refusal(REPLY.ERR_UNSUP, `option ${option} is not supported`)];
  }
}

function transmissionFlags({ isExclusive, isReadOnly }: NbdExport): number {
  return (
    TRANSMISSION.HAS_FLAGS |
    (isReadOnly ? TRANSMISSION.READ_ONLY : 0) |
    TRANSMISSION.SEND_FLUSH |
    TRANSMISSION.SEND_FUA |
    TRANSMISSION.SEND_TRIM |
    TRANSMISSION.SEND_WRITE_ZEROES |
    // All connections share the same open files, so a flush on one covers writes that were answered on others.
    (isExclusive ? 0 : TRANSMISSION.CAN_MULTI_CONN)
  );
}

function isServed(exportName: string, served: NbdExport): boolean {
  return exportName === "" || exportName === served.name;
}

function refusal(type: number, text: string): OptionReply {
  return { type, data: Buffer.from(text) };
}

function exportEntry(name: string): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Buffer.byteLength(name), 0);
  return Buffer.concat([length, Buffer.from(name)]);
}

function oldExportReply(served: NbdExport, noZeroes: boolean): Buffer {
  const reply = Buffer.alloc(noZeroes ? 10 : 134);
  reply.writeBigUInt64BE(BigInt(served.sizeBytes), 0);
  reply.writeUInt16BE(transmissionFlags(served), 8);
  return reply;
}
