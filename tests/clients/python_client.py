"""The official Python client against a running queue: `python python_client.py <mcp-url> <desk-json> <node>`.

With a token in both protocol generations, then through the whole OAuth flow (the owner at the consent page is consent.mjs).
"""

import asyncio
import json
import subprocess
import sys
import uuid
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import httpx2
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import AuthorizationCodeResult
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

URL, DESK, NODE = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
TOOLS = ["cancel_graph_run", "get_graph_run", "list_graph_sessions", "list_projects", "run_graph_session"]
passed = 0


def holds(who: str, what: str) -> None:
    global passed
    passed += 1
    print(f"  ok  {who}: {what}")


async def story(who: str, client: Client) -> None:
    async def call(name, **arguments):
        return await client.call_tool(name, arguments)

    assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
    holds(who, "the five tools are listed")
    projects = (await call("list_projects")).structured_content["projects"]
    assert any(project["project_id"] == DESK["project_id"] for project in projects), projects
    listed = (await call("list_graph_sessions", project_id=DESK["project_id"])).structured_content["sessions"]
    assert sorted(session["slug"] for session in listed) == sorted(DESK["sessions"])
    holds(who, "projects and sessions are listed")

    run = {"graph_session_id": DESK["sessions"]["echo"], "arguments": {"n": 7}, "idempotency_key": f"key-{uuid.uuid4()}"}
    ticket = (await call("run_graph_session", **run)).structured_content
    again = (await call("run_graph_session", **run)).structured_content
    assert (ticket["replayed"], again["replayed"], again["command_id"]) == (False, True, ticket["command_id"])
    holds(who, "a run is queued once, whatever is repeated")

    async def until(command_id):
        for _ in range(10):
            now = (await call("get_graph_run", command_id=command_id, wait_seconds=10)).structured_content
            if now["terminal"]:
                return now
        raise AssertionError(f"{command_id} did not end")

    ended = await until(ticket["command_id"])
    assert (ended["status"], ended["result"]) == ("completed", {"got": {"n": 7}})
    holds(who, "its result is read")
    slow = {"graph_session_id": DESK["sessions"]["slow-compute"], "arguments": {"seconds": 600}, "idempotency_key": f"key-{uuid.uuid4()}"}
    long = (await call("run_graph_session", **slow)).structured_content["command_id"]
    await call("cancel_graph_run", command_id=long)
    assert (await until(long))["status"] == "cancelled"
    holds(who, "a run is cancelled")
    foreign = await call("get_graph_run", command_id=str(uuid.uuid4()))
    assert foreign.is_error and foreign.content[0].text == "Graph run not found or access removed"
    holds(who, "a run that is not ours is not found")


class Kept:
    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def oauth() -> None:
    back = {}

    async def redirect(to: str) -> None:
        consent = [NODE, str(Path(__file__).parent / "consent.mjs"), to, DESK["connect_codes"][1]]
        back["url"] = subprocess.run(consent, check=True, capture_output=True, text=True).stdout.strip()

    async def callback() -> AuthorizationCodeResult:
        query = parse_qs(urlparse(back["url"]).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    metadata = OAuthClientMetadata(client_name="clients-test", redirect_uris=["http://localhost:39998/callback"], token_endpoint_auth_method="none")
    provider = OAuthClientProvider(URL, metadata, Kept(), redirect, callback)
    async with httpx2.AsyncClient(auth=provider, timeout=60) as http:
        async with Client(streamable_http_client(URL, http_client=http)) as client:
            await story("Python, OAuth", client)


async def main() -> None:
    headers = {"Authorization": f"Bearer {DESK['agent_token']}"}
    for who, mode in (("Python, stateless", "auto"), ("Python, handshake", "legacy")):
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            async with Client(streamable_http_client(URL, http_client=http), mode=mode) as client:
                await story(who, client)
    await oauth()
    print(f"python client: {passed} passed")


asyncio.run(main())
