"""Uses `frontdesk mcp` with the official Python client, which shares no code with the server's SDK.

  python mcp_client.py MODE BINARY ARGUMENT…

MODE is how the client connects: `legacy` (with `initialize`) or `auto` (it asks for the newest revision first). Prints
one JSON object with what the client saw.
"""

import asyncio
import json
import sys

from mcp import Client, MCPError, StdioServerParameters


async def text_of(client, tool, arguments):
    result = await client.call_tool(tool, arguments)
    return {"is_error": result.is_error, "texts": [content.text for content in result.content]}


async def main(mode, binary, *arguments):
    server = StdioServerParameters(command=binary, args=list(arguments))
    seen = {}
    async with Client(server, mode=mode) as client:
        seen["version"] = client.protocol_version
        seen["instructions"] = client.instructions
        tools = (await client.list_tools()).tools
        seen["tools"] = {
            tool.name: tool.annotations.model_dump(exclude_none=True) for tool in tools
        }
        seen["list"] = await text_of(client, "list_submissions", {"limit": 5})
        seen["search"] = await text_of(client, "search_submissions", {"query": "instructions"})
        seen["stats"] = await text_of(client, "stats", {"days": 1})
        seen["doctor"] = await text_of(client, "doctor", {})
        seen["check"] = await text_of(client, "check", {})
        seen["wrong"] = await text_of(client, "list_submissions", {"limit": 1000})
        data = seen["list"]["texts"][0].split("\n")[2]
        first = json.loads(data)["submissions"][-1]["id"]
        seen["read"] = await text_of(client, "read_submission", {"id": first})
        try:
            seen["done"] = await text_of(client, "done", {"ids": [first]})
        except MCPError as error:
            seen["done"] = {"refused": str(error)}
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
