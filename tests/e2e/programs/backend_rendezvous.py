"""A worker of two that meets the other as Horovod's Gloo does: each puts its address, and gets all others' until they are there."""
import http.client
import os


def request(method, path, body=None):
    connection = http.client.HTTPConnection(os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]))
    connection.request(method, path, body)
    response = connection.getresponse()
    return response.status, response.read()


rank, size = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
places = [os.environ["HOROVOD_" + name] for name in ("LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "HOSTNAME", "GLOO_IFACE")]
scopes = ["global", "local_" + os.environ["HOROVOD_HOSTNAME"]]
for scope in scopes:
    assert request("PUT", f"/{scope}/{rank}", f"{scope} {rank}".encode() + bytes(range(256)))[0] == 200
for scope in scopes:
    for other in range(size):
        while (answer := request("GET", f"/{scope}/{other}"))[0] == 404:
            pass
        assert answer == (200, f"{scope} {other}".encode() + bytes(range(256))), answer
assert request("DELETE", f"/global/{rank}")[0] == 200
os.write(1, f"met {size} as {' '.join(places)}\n".encode())
