import type { Writable } from "node:stream";
import type { ByteReader } from "./byte-reader.js";
import {
  decodeInfoRequest,
  decodeOptionHeader,
  encodeBlockSizeInfo,
  encodeExportInfo,
  encodeGreeting,
  encodeOptionReply,
  HANDSHAKE,
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
}

// All connections share the same open files, so a flush on one covers writes that were answered on others
// (CAN_MULTI_CONN).
const TRANSMISSION_FLAGS =
  TRANSMISSION.HAS_FLAGS |
  TRANSMISSION.SEND_FLUSH |
  TRANSMISSION.SEND_FUA |
  TRANSMISSION.SEND_TRIM |
  TRANSMISSION.SEND_WRITE_ZEROES |
  TRANSMISSION.CAN_MULTI_CONN;

/**
 * Negotiates as the server. Returns true when the transmission phase begins, false when the client left. Throws on
 * malformed input.
 */
export async function negotiate(reader: ByteReader, socket: Writable, served: NbdExport): Promise<boolean> {
  socket.write(encodeGreeting());
  const clientFlags = (await reader.read(4)).readUInt32BE(0);
  if ((clientFlags & ~(HANDSHAKE.FIXED_NEWSTYLE | HANDSHAKE.NO_ZEROES)) !== 0)
    throw new Error(`the client sent unknown flags ${clientFlags}`);
  const noZeroes = (clientFlags & HANDSHAKE.NO_ZEROES) !== 0;
  for (;;) {
    const { option, lengthBytes } = decodeOptionHeader(await reader.read(OPTION_HEADER_BYTES));
    if (lengthBytes > MAX_OPTION_BYTES)
      throw new Error(`the client sent option ${option} with ${lengthBytes} bytes: the limit is ${MAX_OPTION_BYTES}`);
    const data = await reader.read(lengthBytes);
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
        { type: REPLY.INFO, data: encodeExportInfo(served.sizeBytes, TRANSMISSION_FLAGS) },
        // Minimum 1, because the agent reads and writes single bytes; preferred is the disk's block size.
        { type: REPLY.INFO, data: encodeBlockSizeInfo(1, served.blockSizeBytes, MAX_REQUEST_BYTES) },
        { type: REPLY.ACK },
      ];
    }
    default:
      return [refusal(REPLY.ERR_UNSUP, `option ${option} is not supported`)];
  }
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
  reply.writeUInt16BE(TRANSMISSION_FLAGS, 8);
  return reply;
}
