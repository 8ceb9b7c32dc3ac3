import { CarrierServiceDefinition } from "@diskmesh/api/rpc";
import { type MethodDefinition, methodsOf } from "./definition.js";

/** The method that carries calls of other methods. */
export const CARRY = Object.fromEntries(methodsOf(CarrierServiceDefinition)).carry as MethodDefinition;

/** What a message that carries a call holds beside its request, at most: path and headers. */
export const CARRIER_MARGIN_BYTES = 16_384;

/** What one holds beside an answer, at most: the call's number and the answer's length, of 5 bytes each, and their tags. */
export const ANSWER_MARGIN_BYTES = 12;
